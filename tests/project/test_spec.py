"""The reference of one round: what it imports, how long it is, whose its vectors are."""

import ast
import json
import subprocess
import sys
from pathlib import Path

from spec import make_vectors

HERE = Path(make_vectors.__file__).parent
MOST_LINES, MOST_LINES_TO_VERIFY = 620, 300
ALLOWED = set(sys.stdlib_module_names) | {"cryptography", "spec"}
FORBIDDEN = {"os", "random", "secrets", "sqlite3", "socket", "threading", "functools", "time"}


def imports(path):
    tree = ast.parse(path.read_text())
    names = [a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names]
    names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names}


def test_the_reference_imports_nothing_of_the_package_and_draws_no_randomness():
    for name in ("one_round.py", "one_choice.py", "verify_transcript.py"):
        found = imports(HERE / name)
        assert {"cryptography", "fractions"} & found
        assert found <= ALLOWED - FORBIDDEN
    assert "spec" not in imports(HERE / "one_round.py")


def test_one_round_can_be_read_in_one_sitting():
    assert len((HERE / "one_round.py").read_text().splitlines()) < MOST_LINES
    verifier = (HERE / "verify_transcript.py").read_text().splitlines()
    assert len(verifier) <= MOST_LINES_TO_VERIFY


def test_the_vectors_are_small_and_each_bad_message_is_a_change_of_a_good_one():
    assert sum(map(len, make_vectors.texts().values())) < 400_000
    assert make_vectors.ARCHIVE.stat().st_size < 160_000
    play, rows = make_vectors.bad()
    stored = make_vectors.read("bad")
    assert [row.message.hex() for row in rows] == [one["message"] for one in stored["bad_messages"]]
    whole = [message.hex() for _, _, message in play.world.messages]
    assert [line[2] for line in stored["messages"]] == whole
    assert sum(len(one["edits"]) < 4 for one in stored["bad_messages"]) > 100


def test_the_stored_vectors_are_what_the_reference_writes():
    made = make_vectors.all_vectors()
    stored = make_vectors.texts()
    assert set(stored) == set(made)
    for name, content in made.items():
        assert stored[name] == make_vectors.spelled(content)
        assert json.loads(make_vectors.spelled(content)) == json.loads(json.dumps(content))


def test_it_prints_one_round():
    words = [sys.executable, str(HERE / "one_round.py")]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    for part in (
        "site 2 -> MASKED",
        "SIGNED_SET",
        "'kind': 'Charged'",
        "sum over",
        "split: ('age'",
    ):
        assert part in told
    assert "site 2 -> SHARES" not in told
