from pathlib import Path

import pytest

from hedgerow.errors import ParameterError
from hedgerow.schema.schema import Categorical, Hashed, Numeric, Schema, Spacing, Target

TEXT = """\
classes = ["no", "yes"]

[[feature]]
name = "age"
low = 17
high = 90

[[feature]]
name = "income"
low = 0.0
high = 1e6
spacing = "fine"

[[feature]]
name = "pulse"
low = 30
high = 200
edges = [60, 100]

[[feature]]
name = "job"
values = ["nurse", "clerk"]
other = false

[[feature]]
name = "zip"
buckets = 32
"""

SCHEMA = Schema(
    (
        Numeric("age", 17, 90),
        Numeric("income", 0, 1e6, spacing=Spacing.FINE),
        Numeric("pulse", 30, 200, edges=(60, 100)),
        Categorical("job", ("nurse", "clerk"), other=False),
        Hashed("zip", 32),
    ),
    classes=("no", "yes"),
)


def test_a_schema_is_read_as_it_is_written() -> None:
    assert Schema.from_toml(TEXT) == SCHEMA
    assert Schema.from_toml(SCHEMA.to_toml()) == SCHEMA


@pytest.mark.parametrize("as_path", [Path, str])
def test_a_schema_is_read_from_a_file(tmp_path: Path, as_path) -> None:
    (tmp_path / "schema.toml").write_text(TEXT)
    assert Schema.from_toml(as_path(tmp_path / "schema.toml")) == SCHEMA


def test_a_target_is_read_as_it_is_written() -> None:
    schema = Schema((Numeric("age", 17, 90),), target=Target(-1, 2.5))
    assert Schema.from_toml(schema.to_toml()) == schema


def test_awkward_texts_survive() -> None:
    awkward = ('"', "\\", "a'b", "é", "می\u200cخواهم", "👩\u200d⚕", "a = [", "")
    schema = Schema((Categorical('job "x"', awkward),), classes=awkward)
    assert Schema.from_toml(schema.to_toml()) == schema


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("feature = 3\n", "no list"),
        ("feature = [3]\n", "a feature is 3"),
        ("classes = []\n", "the schema lacks \\['feature'\\]"),
        ("[[feature]]\nlow = 1\n", "a table with a name"),
        ("[[feature]]\nname = 'a'\n", "column 'a' lacks \\['high', 'low'\\]"),
        ("[[feature]]\nname = 'a'\nlow = 0\nhigh = 1\nbin = 3\n", "column 'a'.*\\['bin'\\]"),
        ("[[feature]]\nname = 'a'\nvalues = ['x']\nlow = 3\n", "column 'a'.*\\['low'\\]"),
        ("[[feature]]\nname = 'a'\nbuckets = 4\nother = true\n", "column 'a'.*\\['other'\\]"),
        ("[[feature]]\nname = 'a'\nlow = 2\nhigh = 1\n", "column 'a': low is 2.0"),
        ("[target]\nlow = 0\n[[feature]]\nname = 'a'\nbuckets = 4\n", "the target lacks"),
        ("target = 3\n[[feature]]\nname = 'a'\nbuckets = 4\n", "the target is 3"),
        ("color = 3\n[[feature]]\nname = 'a'\nbuckets = 4\n", "unknown entries \\['color'\\]"),
        ("classes = 'ab'\n[[feature]]\nname = 'a'\nbuckets = 4\n", "classes is 'ab'"),
        ("[[feature]\n", "not valid TOML"),
    ],
)
def test_a_faulty_text_is_refused_by_name(text, says) -> None:
    with pytest.raises(ParameterError, match=says):
        Schema.from_toml(text)


def test_a_file_that_is_not_there_or_not_utf8_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"nowhere.toml' cannot be read: No such file"):
        Schema.from_toml(tmp_path / "nowhere.toml")
    (tmp_path / "latin.toml").write_bytes("classes = ['é']".encode("latin-1"))
    with pytest.raises(ParameterError, match=r"latin.toml' is not UTF-8"):
        Schema.from_toml(tmp_path / "latin.toml")
