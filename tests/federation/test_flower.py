"""The coordinator's end of the pipe through Flower, and what is submitted; without its network."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest

from hedgerow.errors import EngineLost, ParameterError
from hedgerow.federation.exchange import Misses, Quorum
from hedgerow.federation.transports import flower, pipe
from hedgerow.federation.transports.flower import FlowerExchange, flwr_command, run_id_in, write_app

pytestmark = pytest.mark.filterwarnings("ignore")  # of what flwr imports
WHY = "flwr is not installed: its versions do not fit the other tools' (make test-flower)"
needs_flwr = pytest.mark.skipif(find_spec("flwr") is None, reason=WHY)
NAMES = ("a", "b")
FAKE = """\
#!{python}
# In the place of `flwr`: takes a run, whose ServerApp answers each message in reverse.
import json, os, socket, sys
sys.path.insert(0, sys.argv[2])
from hedgerow_pipe.frames import receive_named, send_named, send_note
assert sys.argv[1:2] + sys.argv[3:6] == ["run", "link", "--format", "json"]
wrong = [name for name, value in {quiet}.items() if os.environ.get(name) != value]
print(json.dumps({{"success": not wrong, "run-id": 7}}), flush=True)
if os.fork():
    os._exit(0)
os.close(1), os.close(2)
pipe = socket.socket(socket.AF_UNIX)
pipe.connect(json.loads(sys.argv[7].removeprefix("pipe=")))
send_note(pipe, {{"nodes": 2}})
while True:
    note, messages = receive_named(pipe, 1 << 20)
    if not note or b"die" in messages.values():
        os._exit(0)
    send_named(pipe, {{name: bytes(reversed(text)) for name, text in messages.items()}})
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    command = tmp_path / "flwr"
    command.write_text(FAKE.format(python=sys.executable, quiet=flower.QUIET))
    command.chmod(0o700)
    monkeypatch.setattr(flower, "flwr_command", lambda: str(command))
    monkeypatch.setattr(pipe, "SUBMIT_PAUSE", 0.0)
    return command


def test_messages_go_through_a_run_and_through_another_if_that_one_dies(fake, tmp_path):
    with closing(FlowerExchange("link", NAMES, tmp_path / "pipe")) as transport:
        assert transport.ask({"a": b"one", "b": b""}, 20) == {"a": b"eno", "b": b""}
        assert transport.ask({"b": b"two"}, 20) == {"b": b"owt"}
        answers: dict[int, bytes] = {}
        missed = transport({1: b"two"}, answers.__setitem__, Quorum(lambda more: True, seconds=20))
        assert (answers, missed) == ({1: b"owt"}, Misses())
        assert transport.jobs == 1
        with pytest.raises(EngineLost, match="lost three jobs"):
            transport.ask({"a": b"die"}, 20)
        assert transport.jobs == 3
        assert transport.ask({"a": b"one"}, 20) == {"a": b"eno"}
    assert not (tmp_path / "pipe").exists()


def test_a_superlink_that_takes_no_run_is_told_of_in_its_own_words(fake, tmp_path, monkeypatch):
    """Here because the fake command refuses to run where Flower would report home."""
    monkeypatch.setattr(pipe, "SUBMITS", 2)
    for name in flower.QUIET:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(flower, "QUIET", {})
    with (
        closing(FlowerExchange("link", NAMES, tmp_path / "pipe")) as transport,
        pytest.raises(EngineLost, match=r"takes no job.*\"success\": false"),
    ):
        transport.ask({"a": b"one"}, 20)


def test_what_flwr_says_is_read_strictly():
    assert run_id_in('{"success": true, "run-id": 12}', "") == "12"
    for output in ("", "no JSON", '{"success": false}'):
        with pytest.raises(EngineLost, match=r"refused: .*why"):
            run_id_in(output, "why")


def test_without_the_command_it_is_said_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ParameterError, match=r"hedgerow\[flower\]"):
        flwr_command()


def test_the_app_that_is_submitted_holds_three_files_and_imports_nothing_of_ours(tmp_path):
    write_app(tmp_path)
    package = tmp_path / flower.PACKAGE
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == [
        "__init__.py", "flower_app.py", "frames.py", "pyproject.toml",
    ]  # fmt: skip
    trees = [ast.parse(path.read_text()) for path in package.glob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    absolute = [n.module for n in nodes if isinstance(n, ast.ImportFrom) and not n.level]
    plain = [a.name for n in nodes if isinstance(n, ast.Import) for a in n.names]
    tops = {name.partition(".")[0] for name in (*absolute, *plain)}
    assert tops - sys.stdlib_module_names == {"flwr"}


# ------------------------------------------------------------------------------------ flwr build
APP = Path(__file__).parents[2] / "examples/flower_hub"


def built(folder: Path) -> list[str]:
    """Names in the bundle that `flwr build` makes of an app."""
    command = Path(sys.executable).with_name("flwr")
    done = subprocess.run(
        [command, "build", "--app", str(folder)],
        cwd=folder, capture_output=True, text=True, env=os.environ | flower.QUIET,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (bundle,) = folder.glob("*.fab")
    import zipfile

    return sorted(zipfile.ZipFile(bundle).namelist())


@needs_flwr
def test_flwr_builds_the_app_that_is_submitted_and_the_one_for_its_hub(tmp_path):
    (tmp_path / "pipe").mkdir()
    write_app(tmp_path / "pipe")
    assert f"{flower.PACKAGE}/flower_app.py" in built(tmp_path / "pipe")
    shutil.copytree(APP, tmp_path / "hub")
    assert "hedgerow_study/server_app.py" in built(tmp_path / "hub")
    (tmp_path / "wrong").mkdir()
    (tmp_path / "wrong/pyproject.toml").write_text(flower.PROJECT)  # without what it names
    with pytest.raises(AssertionError):
        built(tmp_path / "wrong")
