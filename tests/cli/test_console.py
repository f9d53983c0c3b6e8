"""Control, escape and bidirectional characters reach no terminal, no page and no CSV."""

from __future__ import annotations

import csv
import json
import re
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hedgerow as hr
from hedgerow.cli import console
from hedgerow.cli.console import run_guarded
from hedgerow.cli.main import app
from hedgerow.deployment.progress import event_in_words
from hedgerow.deployment.study_file import StudyFile
from hedgerow.errors import ParameterError
from hedgerow.federation.audit_log import in_words
from hedgerow.report.page.html import tag
from hedgerow.schema.features import Mark
from hedgerow.schema.visible import has_hidden, visible_lines
from hedgerow.secagg.keys import Identity
from support.worlds import study_text

SCREEN = "\x1b[2J\x1b]0;owned\x07"
REVERSED = "\u202egnorw\u202c"
HIDDEN = ["\x00", "\t", "\n", "\r", "\x1b", "\x7f", "\x85", "\x9b", "\u061c", "\u200e", "\u200f"]
HIDDEN += ["\u2028", "\u2029", "\u202a", "\u202b", "\u202c", "\u202d", "\u202e"]
HIDDEN += ["\u2066", "\u2067", "\u2068", "\u2069"]
SCHEMA = {"age": (0, 110)}


def shown(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """All that a command puts on the terminal."""
    with pytest.raises(SystemExit):
        run_guarded(lambda: app([str(word) for word in words]))
    told = capsys.readouterr()
    return told.out + told.err


def is_plain(text: str) -> bool:
    return not has_hidden(text.replace("\n", ""))


def test_every_control_separator_and_mark_of_direction_is_hidden_and_no_letter_is():
    """By Unicode's own table, for every character there is."""
    for number in range(0x110000):
        one = chr(number)
        kind, way = unicodedata.category(one), unicodedata.bidirectional(one)
        steers = kind in ("Cc", "Zl", "Zp") or way in ("LRE", "RLE", "LRO", "RLO", "PDF")
        steers |= way in ("LRI", "RLI", "FSI", "PDI") or one in "\u061c\u200e\u200f"
        assert has_hidden(one) or not steers, hex(number)
        assert not has_hidden(one) or kind in ("Cc", "Cf", "Zl", "Zp"), hex(number)
    assert not has_hidden("می\u200cخواهم 👩\u200d⚕ é ß")


@pytest.mark.parametrize("hidden", HIDDEN, ids=ascii)
def test_a_schema_refuses_hidden_characters_in_names_categories_classes_and_marks(hidden):
    odd = f"a{hidden}b"
    for make in (
        lambda: hr.Schema({odd: (0, 1)}),
        lambda: hr.Schema({"ward": ["north", odd]}),
        lambda: hr.Schema(SCHEMA, classes=("no", odd)),
        lambda: hr.Schema({odd: str}),
        lambda: Mark(odd, "2026-01-31"),
    ):
        with pytest.raises(ParameterError, match="control characters") as caught:
            make()
        assert is_plain(str(caught.value))


def test_a_draft_of_rows_with_such_values_leaves_them_to_the_other_values():
    frame = pd.DataFrame({"ward": ["north", f"so{SCREEN}uth"] * 20, "age": np.arange(40) % 7})
    drafted = hr.draft_schema(frame)
    assert drafted.features[0].values == ("north",)
    assert drafted.features[0].other


def hostile_study(**change: str) -> str:
    keys = [Identity.generate().public.hex() for _ in range(3)]
    text = study_text(keys, Identity.generate().public.hex())
    for old, new in change.items():
        assert old in text
        text = text.replace(old, new)
    return text


ESCAPED = json.dumps(f"a{SCREEN}{REVERSED}")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("public_seed", f"{ESCAPED} = 1\npublic_seed"),
        ("max_depth", f"{ESCAPED}"),
        ('"wards"', ESCAPED),
        ('"ward"', ESCAPED),
        ('"north"', ESCAPED),
        ('"HistogramTreeClassifier"', ESCAPED),
        ('"none"', ESCAPED),
        ("[timing]", f"[about]\nregion = {ESCAPED}\n[timing]"),
        ("epsilon = 1", f"epsilon = {ESCAPED}"),
    ],
)
def test_what_a_study_file_of_others_says_cannot_steer_the_terminal(tmp_path, capsys, old, new):
    path = tmp_path / "study.toml"
    path.write_text(hostile_study(**{old: new}))
    with pytest.raises(ParameterError):
        StudyFile.read(path)
    told = shown(["study", "check", path], capsys)
    assert told
    assert is_plain(told), told


def test_what_a_model_file_of_others_says_cannot_steer_the_terminal_or_a_page(tmp_path, capsys):
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 110, (60, 1))
    model = hr.TreeClassifier(hr.Schema(SCHEMA, classes=("no", "yes")), epsilon=1.0)
    model.fit(X, np.where(X[:, 0] > 50, "yes", "no"))
    object.__setattr__(model.privacy_, "neighbors", f"one record{SCREEN}{REVERSED}")
    model.save(tmp_path / "model.json")
    told = shown(["show", tmp_path / "model.json"], capsys)
    assert "owned" in told
    assert is_plain(told)
    model.report(tmp_path / "model.html")
    page = (tmp_path / "model.html").read_text("utf-8")
    assert "owned" in page
    assert is_plain(page)


def test_lines_of_logs_and_events_are_one_line_each():
    line = {"time": "2026-01-31T10:00:00Z", "event": "revoked", "what": f"x\nforged{SCREEN}"}
    event = {"time": 0.0, "event": "ended", "why": f"x\nforged{REVERSED}"}
    assert not has_hidden(in_words(line))
    assert not has_hidden(event_in_words(event))
    assert is_plain(str(tag("td", f"{SCREEN}{REVERSED}", title=f"{SCREEN}{REVERSED}")))
    assert visible_lines("a\nb\x1b") == "a\nb\\x1b"


def test_commands_print_through_one_place():
    """Which makes every text visible: a bare print would not. The demo's own words may be bold."""
    for path in Path(console.__file__).parent.glob("*.py"):
        assert path.name == "console.py" or not re.search(
            r"(?<!console\.)\bprint\(", path.read_text()
        ), path


def test_predictions_hold_no_cell_that_a_spreadsheet_computes(tmp_path):
    classes = ("=cmd|' /C calc'!A0", "@sum", "-1", "+1", "-x", "plain")
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 110, (600, 1))
    y = np.array(classes)[np.minimum(X[:, 0] // 19, 5).astype(int)]
    model = hr.TreeClassifier(hr.Schema(SCHEMA, classes=classes), epsilon=1000.0)
    model.fit(X, y).save(tmp_path / "model.json")
    rows = tmp_path / "rows.csv"
    rows.write_text("age\n" + "".join(f"{19 * k + 9}\n" for k in range(6)))
    out = tmp_path / "out.csv"
    with pytest.raises(SystemExit) as ended:
        run_guarded(
            lambda: app(["predict", f"{tmp_path}/model.json", str(rows), "-o", str(out), "-q"])
        )
    assert ended.value.code == 0
    with out.open(newline="", encoding="utf-8") as file:
        head, *lines = csv.reader(file)
    assert [line[0] for line in lines] == [
        *("'=cmd|' /C calc'!A0", "'@sum", "-1", "+1", "'-x", "plain")
    ]
    texts = [*head, *(line[0] for line in lines)]
    assert not [text for text in texts if re.match(r"[=@\t\r]|[+-](?!\d+$)", text)]
    assert all(0.0 <= float(cell) <= 1.0 for line in lines for cell in line[1:])


@pytest.mark.parametrize(("screen", "opened"), [("", []), (":0", ["page.html"])], ids=["no", "yes"])
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere there is a screen")
def test_without_a_screen_a_page_is_named_and_no_browser_is_looked_for(
    screen, opened, monkeypatch, capsys
):
    calls = []
    monkeypatch.setattr(console.typer, "launch", calls.append)
    for name in ("WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DISPLAY", screen)
    console.show_page("page.html")
    assert calls == opened
    assert ("open page.html in a browser" in capsys.readouterr().err) == (not opened)
