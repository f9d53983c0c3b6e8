"""The officer's sheet: one printed A4 page about a model, for the person who signs off its use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hedgerow.report.evaluation import kept_evaluation
from hedgerow.report.exports.export import write_file
from hedgerow.report.page import sections
from hedgerow.report.page.html import Html, bullet_list, picture, table, tag
from hedgerow.report.page.page import Reportable, html_document, title_of
from hedgerow.report.plain import PlainModel, plain
from hedgerow.schema.features import Mark, Numeric
from hedgerow.schema.schema import Schema

# A QR code of up to 84 bytes: version 5, error correction M, mask 0 (ISO/IEC 18004). Enough for a
# digest on a printed page. Its size does not depend on the length of the text.
SIDE, DATA, CHECKS, BLOCKS = 37, 86, 24, 2
LONGEST = DATA - 2
_FORMAT = 0b101010000010010
"""Level M with mask 0, after its own error correction and mask."""
_POLYNOMIAL = 0x11D
_FINDERS = ((3, 3), (3, SIDE - 4), (SIDE - 4, 3))
_ALIGNMENT = (SIDE - 7, SIDE - 7)

Modules = list[list[bool]]


def qr_code(text: str) -> Modules:
    """Rows of modules, True for black, without the white margin of four."""
    content = text.encode()
    if len(content) > LONGEST:
        raise ValueError(f"a QR code of version 5 holds {LONGEST} bytes, not {len(content)}")
    fixed_modules = _fixed_modules()
    bits = (bool(word >> k & 1) for word in _codewords(content) for k in range(7, -1, -1))
    modules = [[fixed_modules.get((y, x), False) for x in range(SIDE)] for y in range(SIDE)]
    for y, x in _places(fixed_modules):
        modules[y][x] = next(bits, False) ^ ((y + x) % 2 == 0)
    return modules


def _codewords(content: bytes) -> list[int]:
    """Data in blocks, then the error correction of each, column by column."""
    header = 0b0100 << 8 | len(content)
    whole = header << (8 * len(content)) | int.from_bytes(content)
    data = (whole << 4).to_bytes(len(content) + 2)  # the terminator is four zeros
    data += bytes([0xEC, 0x11][k % 2] for k in range(DATA - len(data)))
    size = DATA // BLOCKS
    blocks = [data[k : k + size] for k in range(0, DATA, size)]
    checks = [_checks(block) for block in blocks]
    return [block[k] for k in range(size) for block in blocks] + [
        check[k] for k in range(CHECKS) for check in checks
    ]


def _times(a: int, b: int) -> int:
    """Multiplication in GF(256)."""
    product = 0
    for k in range(8):
        product ^= (a << k) * (b >> k & 1)
    for k in range(14, 7, -1):
        product ^= (_POLYNOMIAL << (k - 8)) * (product >> k & 1)
    return product


def _checks(block: bytes) -> list[int]:
    """The remainder by the generator whose roots are the first powers of two."""
    generator, root = [1], 1
    for _ in range(CHECKS):
        longer = [*generator, 0]
        generator = [c ^ _times(root, d) for c, d in zip(longer, [0, *generator], strict=True)]
        root = _times(root, 2)
    rest = [*block, *([0] * CHECKS)]
    for k in range(len(block)):
        factor = rest[k]
        for j, c in enumerate(generator):
            rest[k + j] ^= _times(factor, c)
    return rest[-CHECKS:]


def _fixed_modules() -> dict[tuple[int, int], bool]:
    """Finders with their margin, the alignment mark, timing lines, the format twice."""
    fixed_modules = {}
    for cy, cx in _FINDERS:
        for y in range(cy - 4, cy + 5):
            for x in range(cx - 4, cx + 5):
                if 0 <= y < SIDE and 0 <= x < SIDE:
                    fixed_modules[y, x] = max(abs(y - cy), abs(x - cx)) not in (2, 4)
    for k in range(8, SIDE - 8):
        fixed_modules[6, k] = fixed_modules[k, 6] = k % 2 == 0
    cy, cx = _ALIGNMENT
    for y in range(cy - 2, cy + 3):
        for x in range(cx - 2, cx + 3):
            fixed_modules[y, x] = max(abs(y - cy), abs(x - cx)) != 1
    down = [*range(6), 7, 8, *range(SIDE - 7, SIDE)]
    across = [*range(SIDE - 1, SIDE - 9, -1), 7, *range(5, -1, -1)]
    for k in range(15):
        bit = bool(_FORMAT >> k & 1)
        fixed_modules[down[k], 8] = fixed_modules[8, across[k]] = bit
    fixed_modules[SIDE - 8, 8] = True
    return fixed_modules


def _places(fixed_modules: dict[tuple[int, int], bool]) -> Iterator[tuple[int, int]]:
    """Free modules, two columns at a time, upwards and downwards from the right."""
    columns = [x for x in range(SIDE - 1, 0, -2) if x > 6] + [5, 3, 1]
    for turn, right in enumerate(columns):
        rows = range(SIDE) if turn % 2 else range(SIDE - 1, -1, -1)
        for y in rows:
            yield from ((y, x) for x in (right, right - 1) if (y, x) not in fixed_modules)


MOST_COLUMNS = 8
"""Most columns of the schema on the page; the rest is counted."""
MOST_NOTES = 4
MOST_STUDIES = 5
STYLE = """
@page{size:A4;margin:11mm}
*{box-sizing:border-box}
body{font:9pt/1.34 system-ui,sans-serif;color:#16211a;background:#fff;margin:0 auto;padding:8mm;
max-width:210mm}
@media print{body{padding:0}}
h1{font-size:17pt;margin:0}h2{font-size:10.5pt;margin:3.2mm 0 1mm;border-bottom:1px solid #6b7a6d}
p{margin:.8mm 0}.lead{font-size:10.6pt}
header{display:flex;justify-content:space-between;gap:6mm;align-items:flex-start}
svg{width:27mm;height:27mm;flex:none}
.two{display:grid;grid-template-columns:1fr 1fr;gap:0 7mm}
.box{border:1.5px solid #16211a;border-radius:2mm;padding:2mm 3mm;margin:1mm 0}
.big{font-size:15pt;font-weight:650}
table{border-collapse:collapse;width:100%;font-size:8.2pt}caption{text-align:left;display:none}
th,td{text-align:left;padding:.35mm 2mm .35mm 0;border-bottom:1px solid #cdd5cd;vertical-align:top}
ul{margin:.6mm 0;padding-left:4mm}li{margin:.2mm 0}
code{font-size:8pt;overflow-wrap:anywhere}
.sign{display:grid;grid-template-columns:2fr 2fr 1fr 2fr;gap:5mm;margin-top:9mm}
.sign div{border-top:1px solid #16211a;font-size:8.4pt}
"""


@dataclass(frozen=True)
class Context:
    """What the model file does not contain: the ledger's total, and what was verified."""

    lifetime: Sequence[tuple[str, str]] = ()
    """Titles and words about all studies of the same records."""
    verdict: str = ""


def sheet(model: Reportable, path: str | Path, context: Context | None = None) -> Path:
    """Writes the sheet as HTML, to be printed or saved as PDF by a browser."""
    return write_file(path, sheet_of(model, context or Context()).encode())


def sheet_of(model: Reportable, context: Context) -> str:
    form, statement = plain(model), model.privacy_
    digest = model.model_.score.digest
    head = tag(
        "header",
        tag("div", tag("h1", f"Privacy sheet: {title_of(form).lower()}"), _first(model, form)),
        _picture(f"hedgerow sha256:{digest}"),
    )
    line = [tag("div", words) for words in ("Name", "Role, institution", "Date", "Signature")]
    parts = [
        head,
        tag("div", _this_study(model), _all_studies(model, context), class_="two"),
        tag("div", _ranges(model.schema_), _evaluation_section(model, form, context), class_="two"),
        _assumptions(model),
        tag("h2", "Decision"),
        tag("p", "This model may be used for the purpose and by the people named here: "),
        *[tag("div", *line, class_="sign")] * 2,
        tag("h2", "Which model"),
        tag("p", "SHA-256 ", tag("code", digest), f" · hedgerow {statement.release}. Check: ",
            tag("code", "hedgerow verify model.json"), "."),
    ]  # fmt: skip
    return html_document(f"Privacy sheet: {title_of(form)}", STYLE, tag("main", *parts))


def _first(model: Reportable, form: PlainModel) -> Html:
    statement = model.privacy_
    number = "a number" if form.survival is None else "the time to an event"
    task = number if form.classes is None else " or ".join(form.classes[:4])
    words = (
        f"This is a program that predicts {task} from {sections.many(len(form.grids), 'column')}. "
        f"It was learned from records of {sections.sites_words(statement)}; no record is in it. "
        f"{sections.meaning_lines(statement)[0]}"
    )
    return tag("p", words, class_="lead")


def _picture(text: str) -> Html:
    """The digest as a QR code."""
    cells = "".join(
        f"M{x + 4} {y + 4}h1v1h-1z"
        for y, row in enumerate(qr_code(text))
        for x, is_black in enumerate(row)
        if is_black
    )
    side = SIDE + 8
    inner = f'<rect width="{side}" height="{side}" fill="#fff"/><path d="{cells}"/>'
    label = "QR code of the model's SHA-256"
    return picture(inner, f"0 0 {side} {side}", label, shape_rendering="crispEdges")


def _this_study(model: Reportable) -> Html:
    statement = model.privacy_
    spent = statement.spent_fraction
    use_words = "no noise was added" if spent is None else f"{spent:.1%} of it was used"
    words = tag("p", statement.summary, class_="big"), tag("p", f"{statement.unit}; {use_words}.")
    meaning = tag("p", *(f"{line} " for line in sections.meaning_lines(statement)[1:2]))
    return tag("section", tag("h2", "This study"), tag("div", *words, class_="box"), meaning)


NO_LEDGER = (
    "Not known here: the model file names no ledger. `hedgerow report --sheet --ledger LEDGER` (a "
    "ledger of fits, or a site's state folder) adds all studies of the same records."
)


def _all_studies(model: Reportable, context: Context) -> Html:
    lines = list(context.lifetime)
    total = model.privacy_.total
    if not lines and total is not None:
        lines = [("all fits up to this one", total.summary), ("fits", str(total.fits))]
    if len(lines) > MOST_STUDIES:
        more = f"{len(lines) - MOST_STUDIES} more"
        lines = [*lines[:MOST_STUDIES], (more, "in `hedgerow ledger show`")]
    content = table(["What", "Value"], lines, "All studies") if lines else tag("p", NO_LEDGER)
    return tag("section", tag("h2", "All studies of these records together"), content)


def _ranges(schema: Schema) -> Html:
    rows = [(f.name, _values(f), _who(f.mark)) for f in schema.features[:MOST_COLUMNS]]
    if schema.classes is not None:
        rows.append(("classes", _some(schema.classes), _who(schema.classes_mark)))
    more = len(schema.features) - MOST_COLUMNS
    if more > 0:
        rows.append((f"{more} more", "see the report", ""))
    ranges = table(["Column", "Public range", "Confirmed by"], rows, "Public ranges")
    return tag("section", tag("h2", "Who confirmed which range"), ranges)


def _values(feature: object) -> str:
    if isinstance(feature, Numeric):
        is_open = getattr(feature, "is_open", False)
        return "none declared" if is_open else f"{feature.low:g} to {feature.high:g}"
    return _some(getattr(feature, "values", ())) or "hashed"


def _some(values: Sequence[object]) -> str:
    shown = ", ".join(map(str, values[:3]))
    return shown + (f" and {len(values) - 3} more" if len(values) > 3 else "")


def _who(mark: Mark | None) -> str:
    if mark is None:
        return "declared"
    return "nobody: no guarantee" if mark.is_open else f"{mark.confirmed_by}, {mark.confirmed_on}"


def _evaluation_section(model: Reportable, form: PlainModel, context: Context) -> Html:
    result = kept_evaluation(model)
    rows = [("file", context.verdict)] if context.verdict else []
    if result is None:
        rows.append(("how good", sections.how_to_evaluate(model.privacy_)))
    else:
        group = next((group for group in result.parts[0] if group.is_told), None)
        for name, m in list(group.measures.items() if group else ())[:6]:
            title = sections.measure_title(name, form.classes or ())
            rows.append((title, f"{m.value:.3f} ({sections.interval_words(m)})"))
        payers = "held-out records" if result.privacy_.held_out else "the records it was given"
        rows.append(("paid by", f"{payers}: {result.privacy_.summary}"))
    return tag("section", tag("h2", "What was tested"), table(["What", "Result"], rows, "Tests"))


def _assumptions(model: Reportable) -> Html:
    statement = model.privacy_
    trust = [f"Against {adversary}: {bound}" for adversary, bound in statement.trust]
    notes = [*statement.unprotected, *statement.caveats]
    more = [f"and {len(notes) - MOST_NOTES} more, in the report"] if len(notes) > MOST_NOTES else []
    lists = {"Assumptions": trust, "Not protected, and notes": [*notes[:MOST_NOTES], *more]}
    parts = [tag("section", tag("h2", t), bullet_list(lines)) for t, lines in lists.items()]
    return tag("div", *parts, class_="two")
