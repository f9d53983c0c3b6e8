"""`make gallery`: runs every example of the gallery and keeps its picture in docs/images/gallery.

With names (`python -m docs.make_gallery plot_08_audit`) only those. Look at every picture before it
is committed. The site shows kept pictures and runs no example.
"""

from __future__ import annotations

import csv
import hashlib
import os
import runpy
import sys
import tempfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples" / "gallery"
PICTURES = ROOT / "docs" / "images" / "gallery"
MADE = PICTURES / "made.csv"
"""By example, the digest of the file that its pictures were made by."""
MOST_BYTES = 45_000
FEWEST_COLORS = 16
COLORS = (32, 64, 128, FEWEST_COLORS)
VISIBLE = 0.4
"""Mean difference of colors from which bands are seen, as in a picture's color bar."""
WIDTHS = (1.0, 0.8, 0.65, 0.5)


def examples() -> list[Path]:
    return sorted(EXAMPLES.glob("plot_*.py"))


def digest(example: Path) -> str:
    return hashlib.sha256(example.read_bytes()).hexdigest()


def made() -> dict[str, str]:
    if not MADE.exists():
        return {}
    with MADE.open(newline="", encoding="utf-8") as lines:
        return {row["example"]: row["digest"] for row in csv.DictReader(lines)}


def draw(example: Path) -> None:
    """Runs an example and keeps its figures."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.close("all")
    runpy.run_path(str(example), run_name="__main__")
    drawn = [BytesIO() for _ in pyplot.get_fignums()]
    for number, out in zip(pyplot.get_fignums(), drawn, strict=True):
        pyplot.figure(number).savefig(out, format="png", dpi=100)
    (PICTURES / f"{example.stem}.png").write_bytes(small(stacked(drawn)))
    pyplot.close("all")


def stacked(drawn: Sequence[BytesIO]) -> bytes:
    """The figures of an example one below the other, on white."""
    from PIL import Image

    figures = [Image.open(figure).convert("RGB") for figure in drawn]
    size = max(figure.width for figure in figures), sum(figure.height for figure in figures)
    whole, top = Image.new("RGB", size, "white"), 0
    for figure in figures:
        whole.paste(figure, (0, top))
        top += figure.height
    out = BytesIO()
    whole.save(out, "PNG")
    return out.getvalue()


def small(picture: bytes) -> bytes:
    """With as few colors as the eye accepts, and as many pixels as the limit leaves room for."""
    from PIL import Image

    whole = Image.open(BytesIO(picture)).convert("RGB")
    for width in WIDTHS:
        size = (round(width * whole.width), round(width * whole.height))
        sized = whole if width == 1.0 else whole.resize(size, Image.Resampling.LANCZOS)
        for colors in COLORS:
            out = BytesIO()
            drawn = sized.quantize(colors, kmeans=4, dither=Image.Dither.NONE)
            drawn.save(out, "PNG", optimize=True)
            is_fine = colors == FEWEST_COLORS or _apart(sized, drawn.convert("RGB")) < VISIBLE
            if is_fine and len(out.getvalue()) <= MOST_BYTES:
                return out.getvalue()
    raise ValueError(f"a picture stays above {MOST_BYTES} bytes: draw fewer things in it")


def _apart(one: Any, other: Any) -> float:
    """The mean difference of two pictures, in steps of a color."""
    from PIL import ImageChops, ImageStat

    return float(max(ImageStat.Stat(ImageChops.difference(one, other)).mean))


def keep_digests(names: list[str]) -> None:
    known = made()
    fresh = {path.stem: digest(path) for path in examples() if path.stem in names}
    with MADE.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("example", "digest"))
        writer.writerows(sorted({**known, **fresh}.items()))


def main(names: list[str]) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    chosen = [path for path in examples() if not names or path.stem in names]
    with tempfile.TemporaryDirectory() as folder:  # examples write files
        os.chdir(folder)
        for example in chosen:
            draw(example)
            print(example.stem, flush=True)
        os.chdir(ROOT)
    keep_digests([path.stem for path in chosen])


if __name__ == "__main__":
    main(sys.argv[1:])
