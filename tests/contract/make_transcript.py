"""python make_transcript.py: types the guide and writes docs/consortium_transcript.md."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from contract.guide import TRANSCRIPT, Typist, commands, transcript
from contract.network_world import processes


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, processes(Path(folder)) as started:
        typist = Typist(Path(folder), started)
        for who, words in commands():
            typist.type(who, words)
    TRANSCRIPT.write_text(transcript(typist), encoding="utf-8")


if __name__ == "__main__":
    main()
