"""Text files as programs write them, workbooks, and what is told of the first mistake."""

from __future__ import annotations

import datetime
import gzip
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import hedgerow as hr
from hedgerow.cli.console import SECONDS_BETWEEN_LINES, ReadingProgress
from hedgerow.cli.main import declare_delimiter
from hedgerow.data.reading import files
from hedgerow.data.reading.containers import ROWS_READ
from hedgerow.data.reading.encoding import encode
from hedgerow.errors import DataError, ParameterError

SCHEMA = hr.Schema(
    (
        hr.Numeric("Größe", 0, 10, bins=10, parse={"kind": "number", "decimal": ","}),
        hr.Categorical("note", ("a", "é", 'x;"y", z'), other=True),
    ),
    classes=("no", "yes"),
)
ROWS = [
    ("1,5", "a", "no"),
    ("2,5", "é", "yes"),
    ("3,5", 'x;"y", z', "no"),
    ("4,5", "p\n\nq\n", "yes"),
]
CODES = [[1, 2, 3, 4], [0, 1, 2, 3]]


def text_of(sign: str, ends: str = "\n") -> str:
    def cell(text: str) -> str:
        return '"' + text.replace('"', '""') + '"' if {sign, '"', "\n"} & set(text) else text

    lines = [("Größe", "note", "y"), *ROWS]
    return "".join(sign.join(map(cell, line)) + ends for line in lines)


@pytest.mark.parametrize("sign", [",", ";", "\t", "|"])
@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16", "utf-16-le", "utf-16-be"]
)
@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz", "rows.tsv"])
def test_a_text_file_is_read_however_a_program_wrote_it(sign, encoding, name, tmp_path) -> None:
    content = text_of(sign, "\r\n").encode(encoding)
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    for check in (True, False):
        encoded = encode(path, SCHEMA, target="y", check=check)
        assert encoded.codes.tolist() == CODES
        assert encoded.skipped == 0


@pytest.mark.parametrize("block_bytes", [64, 128, 1 << 20])
def test_records_of_several_lines_may_fall_on_the_end_of_a_block(
    block_bytes, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(files, "CSV_BLOCK_BYTES", 2 * block_bytes)
    (tmp_path / "rows.csv").write_text("n,w\n" + '1,"a\nb"\n2,c\n' * 50)
    schema = hr.Schema((hr.Numeric("n", 0, 4, bins=4), hr.Categorical("w", ("c",))))
    assert encode(tmp_path / "rows.csv", schema).codes.tolist() == [[1, 2] * 50, [1, 0] * 50]


BROKEN = [
    ("a,b\n1,2\n3\n4,5\n", "rows.csv', line 3 has 1 cells, the header 2"),
    ("a,b\n1,2\n\n3,4,5\n", "rows.csv', line 4 has 3 cells, the header 2"),
    ('a,b\n1,"2\n3,4\n', "rows.csv', line 2 opens a quote that does not close"),
    ('a,b\n1,"\n\n"\nx,4\n', "rows.csv', line 5, column 'a': 'x' is not a number"),
    ("a,b\n1,2\n3,y\n4,z\n", "rows.csv', line 3, column 'b': 'y' is not a number"),
    ("a,a\n1,2\n", "2 columns named 'a'"),
]


@pytest.mark.parametrize(("content", "says"), BROKEN)
def test_a_mistake_is_named_by_line_and_column(content, says, tmp_path) -> None:
    (tmp_path / "rows.csv").write_text(content)
    schema = hr.Schema((hr.Numeric("a", 0, 9), hr.Numeric("b", 0, 9)))
    with pytest.raises(DataError, match=says):
        encode(tmp_path / "rows.csv", schema, check=True)


def test_in_a_folder_the_file_is_named_too(tmp_path) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n")
    (tmp_path / "b.csv").write_text("a\n1\nx\n")
    with pytest.raises(DataError, match=r"file 'b.csv', line 3, column 'a': 'x'"):
        encode(tmp_path, hr.Schema((hr.Numeric("a", 0, 9),)), check=True)


def test_the_first_mistake_is_told_before_the_rest_is_read(tmp_path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n1\n" + "1,2\n" * 600_000)
    schema, chunks = hr.Schema((hr.Numeric("a", 0, 9),)), list[int]()
    token = ROWS_READ.set(lambda where, rows: chunks.append(rows))
    try:
        with pytest.raises(DataError, match="line 2"):
            encode(tmp_path / "rows.csv", schema, check=True)
        assert chunks == []
        encode(tmp_path / "rows.csv", schema)
        assert chunks[-1] == 600_000
        assert len(chunks) > 1
    finally:
        ROWS_READ.reset(token)


def test_progress_is_a_line_every_few_seconds_and_none_if_quiet(capsys) -> None:
    moments = iter([0.0, 1.0, 2.0, SECONDS_BETWEEN_LINES, SECONDS_BETWEEN_LINES + 1])
    progress = ReadingProgress(quiet=False, clock=lambda: next(moments))
    for rows in (1000, 2000, 1_234_567, 2_000_000):
        progress.note("file 'rows.csv'", rows)
    assert capsys.readouterr().err == "hedgerow: file 'rows.csv': 1,234,567 rows read\n"
    moments = iter([0.0, 100.0])
    ReadingProgress(quiet=True, clock=lambda: next(moments)).note("file", 1)
    assert capsys.readouterr().err == ""


def test_a_declared_delimiter_wins_over_the_header(tmp_path) -> None:
    (tmp_path / "rows.csv").write_text("a,b;c\n1,2;3\n")
    schema = hr.Schema((hr.Numeric("a,b", 0, 9, bins=9, parse={"kind": "number", "decimal": ","}),))
    token = files.DELIMITER.set(None)
    try:
        declare_delimiter(";")
        assert encode(tmp_path / "rows.csv", schema, check=True).codes.tolist() == [[1]]
        for wrong in ("", ";;", "a", '"'):
            with pytest.raises(ParameterError, match="use one sign"):
                declare_delimiter(wrong)
    finally:
        files.DELIMITER.reset(token)


def test_a_workbook_is_read_with_its_own_types(tmp_path) -> None:
    pytest.importorskip("openpyxl")
    rows: list[Any] = [
        datetime.datetime(2020, 3, 31),
        datetime.date(2020, 4, 1),
        None,
        "2020-05-02",
    ]
    frame = pd.DataFrame({"visit": rows, "n": [1.5, 2, None, 4], "w": ["a", "b", "a", None]})
    path = Path(tmp_path / "rows.xlsx")
    frame.to_excel(path, index=False)
    schema = hr.Schema(
        (
            hr.Numeric("visit", 1, 13, bins=12, parse={"kind": "date", "part": "month"}),
            hr.Numeric("n", 0, 5, bins=5),
            hr.Categorical("w", ("a", "b"), other=False),
        )
    )
    assert encode(path, schema, check=True).codes.tolist() == [
        [2, 3, 12, 4],
        [1, 2, 5, 4],
        [0, 1, 0, 2],
    ]
    (tmp_path / "no.xlsx").write_text("no workbook")
    with pytest.raises(DataError, match=r"no.xlsx' cannot be read"):
        encode(tmp_path / "no.xlsx", schema)
