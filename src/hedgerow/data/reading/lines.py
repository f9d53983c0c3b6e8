"""The lines of a CSV file, each a record of its own.

A parser takes a quote that is never closed as the start of a value that runs over all lines below
it. Here a value ends with its line at the latest: a line that would swallow the next ones is left
out, alone, and so is one that is longer than any parser's block.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_QUOTED = rb'"(?:[^"\r\n]++|"")*+"'
_CELL = rb"(?:" + _QUOTED + rb'(?!")[^,\r\n]*+|(?!")[^,\r\n]*+)'
_CLOSED = re.compile(_CELL + rb"(?:," + _CELL + rb")*+")
"""A line at whose end no quote is open. A quote opens a value only as its first character."""

_TIDY = re.compile(rb'(?:[^"]*+(?<![^,\r\n])' + _QUOTED + rb'(?=[,\r\n]))*+[^"]*+')
"""Any number of lines in which quotes are nowhere but around whole cells."""

_QUOTED_CELL = re.compile(rb"(?<![^,])" + _QUOTED)
_LINE_END = re.compile(rb"[\r\n]")


class SoundLines(io.RawIOBase):
    """A CSV file without lines that would stop or mislead a parser; `dropped_lines` counts them.

    Left out are lines with an open quote, lines of more than `longest` bytes, and lines that have
    another number of cells than the header and are no UTF-8 (Arrow cannot skip those by itself).
    """

    def __init__(self, path: Path, longest: int) -> None:
        self.dropped_lines = 0
        self._longest = longest
        self._width = _width(_header(path, longest))
        self._file = path.open("rb")
        self._blocks = self._sound_blocks()
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._left = memoryview(block)
        n = min(len(buffer), len(self._left))
        buffer[:n], self._left = self._left[:n], self._left[n:]
        return n

    def close(self) -> None:
        self._file.close()
        super().close()

    def _sound_blocks(self) -> Iterator[bytes]:
        for block in _whole_lines(self._file, self._longest):
            if block is None:
                self.dropped_lines += 1
            elif _TIDY.fullmatch(block) and is_text(block):
                yield block
            else:
                yield b"".join(self._sound(block.splitlines(keepends=True)))

    def _sound(self, lines: list[bytes]) -> Iterator[bytes]:
        for line in lines:
            content = line.rstrip(b"\r\n")
            is_readable = is_text(content) or _width(content) == self._width
            if is_readable and _CLOSED.fullmatch(content):
                yield line
            else:
                self.dropped_lines += 1


def header_is_sound(path: Path, longest: int) -> bool:
    header = _header(path, longest)
    return len(header) < longest and _CLOSED.fullmatch(header) is not None


def _header(path: Path, longest: int) -> bytes:
    """The first line with anything on it."""
    with path.open("rb") as file:
        start = file.read(longest).removeprefix(BYTE_ORDER_MARK).lstrip(b"\r\n")
    return _LINE_END.split(start, maxsplit=1)[0]


def _width(line: bytes) -> int:
    """The number of cells."""
    return _QUOTED_CELL.sub(b"", line).count(b",") + 1


def is_text(text: bytes) -> bool:
    """Whether the bytes are UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _whole_lines(file: IO[bytes], longest: int) -> Iterator[bytes | None]:
    """Blocks of whole lines, and None in place of a line of more than `longest` bytes."""
    line, length = b"", 0  # where the last block broke off; a long line keeps its length only
    block = file.read(longest).removeprefix(BYTE_ORDER_MARK)
    while block:
        end = _LINE_END.search(block)
        length += len(block) if end is None else end.start()
        line = line + block if length <= longest else b""
        if end is not None:
            if length > longest:
                yield None
                line = block[end.start() :]
            cut = max(line.rfind(b"\n"), line.rfind(b"\r")) + 1
            yield line[:cut]
            line = line[cut:]
            length = len(line)
        block = file.read(longest)
    if length:
        yield line + b"\n" if length <= longest else None
