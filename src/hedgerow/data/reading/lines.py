"""Splits a CSV file into records, each determined by its own lines alone.

An ordinary parser lets an unclosed quote swallow all following lines. Here a line that is complete
by itself, or that opens a quote by itself, begins a record; any other line may continue one. Values
may contain line breaks, and a malformed record is dropped alone: it never swallows a complete line
or the first line of another record.
"""

from __future__ import annotations

import codecs
import gzip
import io
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import IO, Any

BYTE_ORDER_MARK = codecs.BOM_UTF8
GZIP = b"\x1f\x8b"
WIDE = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
DELIMITERS = (b",", b";", b"\t", b"|")

_QUOTED = rb'"(?:[^"\r\n]++|"")*+"'
_LINE_END = re.compile(rb"[\r\n]")


class Dialect:
    """The patterns of one delimiter, for records with a fixed number of cells."""

    def __init__(self, delimiter: bytes, cells: int = 1) -> None:
        self.delimiter, self.cells = delimiter, cells
        sign = re.escape(delimiter)
        cell = rb"(?:" + _QUOTED + rb'(?!")[^' + sign + rb'\r\n]*+|(?!")[^' + sign + rb"\r\n]*+)"
        long_cell = rb'(?:"(?:[^"]++|"")*+"|(?!")[^' + sign + rb'"\r\n]*+)'
        more = b"{%d}+" % (cells - 1)
        self.closed = re.compile(cell + rb"(?:" + sign + cell + rb")*+")
        # A quote before a delimiter or the end more likely closes a quote of an earlier line.
        opens = rb'(?!"(?:' + sign + rb"|\Z))(?:" + cell + sign + rb')*+"(?:[^"\r\n]++|"")*+'
        self.opens = re.compile(opens)
        self.whole = re.compile(long_cell + rb"(?:" + sign + long_cell + rb")" + more)
        # Any number of lines in which quotes occur only around whole cells.
        before, after = rb"(?<![^" + sign + rb"\r\n])", rb"(?=[" + sign + rb"\r\n])"
        self.tidy = re.compile(rb'(?:[^"]*+' + before + _QUOTED + after + rb')*+[^"]*+')
        self.quoted = re.compile(rb"(?<![^" + sign + rb"])" + _QUOTED)

    def width(self, line: bytes) -> int:
        """The number of cells."""
        return self.quoted.sub(b"", line).count(self.delimiter) + 1


dialect_of = cache(Dialect)


def delimiter_of(header: bytes) -> bytes:
    """The most frequent delimiter of the header; records have no influence."""
    return max(DELIMITERS, key=lambda sign: dialect_of(sign).width(header))


def open_bytes(path: Path) -> IO[bytes]:
    """The file as UTF-8, decompressed and converted from UTF-16 if necessary."""
    with path.open("rb") as file:
        is_packed = file.read(2) == GZIP
    raw: Any = (gzip.GzipFile if is_packed else open)(path, "rb")
    start = raw.read(4)
    raw.seek(0)
    encoding = WIDE.get(start[:2]) or _without_mark(start)
    return raw if encoding is None else _Narrowed(raw, encoding)  # type: ignore[return-value]


def _without_mark(start: bytes) -> str | None:
    """The UTF-16 variant of a header without a byte order mark, or None."""
    upper, lower = start[::2], start[1::2]
    if upper == b"\0\0" and min(lower) >= 0x20:
        return "utf-16-be"
    return "utf-16-le" if lower == b"\0\0" and min(upper) >= 0x20 else None


class _Narrowed:
    """A UTF-16 file, read as UTF-8."""

    def __init__(self, file: IO[bytes], encoding: str) -> None:
        self._file, self._decoder = file, codecs.getincrementaldecoder(encoding)("replace")
        self.close = file.close

    def read(self, size: int) -> bytes:
        text = ""
        while not text:
            block = self._file.read(size)
            text = self._decoder.decode(block, final=not block)
            if not block:
                break
        return text.encode("utf-8", "replace")

    def __enter__(self) -> _Narrowed:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SoundLines(io.RawIOBase):
    """A CSV file without lines that would stop or mislead a parser; `dropped_lines` counts them.

    It drops records with unclosed quotes, lines of more than `longest` bytes and, where lines are
    examined one by one, those with a different number of cells than the header. A line that is not
    UTF-8 is read as Windows-1252.
    """

    def __init__(self, path: Path, longest: int, delimiter: bytes) -> None:
        self.dropped_lines = self.recoded_lines = 0
        self.first_problem: str | None = None
        self._longest, self._path = longest, path
        self._dialect = dialect_of(delimiter, dialect_of(delimiter).width(header_of(path, longest)))
        self._line, self._pending, self._begun = 0, list[bytes](), 0
        self._file = open_bytes(path)
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

    def records(self) -> Iterator[tuple[int, bytes]]:
        """Every record with the number of its first line."""
        for block in _whole_lines(self._file, self._longest):
            yield from self._sound(block)
        self._drop_pending()

    def _sound_blocks(self) -> Iterator[bytes]:
        for block in _whole_lines(self._file, self._longest):
            is_tidy = block and not self._pending and self._dialect.tidy.fullmatch(block)
            if block and is_tidy and is_text(block):
                self._line += max(block.count(b"\n"), block.count(b"\r"))
                yield block
            else:
                yield b"".join(record for _, record in self._sound(block))
        self._drop_pending()

    def _sound(self, block: bytes | None) -> Iterator[tuple[int, bytes]]:
        if block is None:
            self._line += 1
            self._drop(self._line, f"is longer than {self._longest} bytes")
        for raw in (block or b"").splitlines(keepends=True):
            self._line += 1
            line = self._as_text(raw)
            content, dialect = line.rstrip(b"\r\n"), self._dialect
            is_whole = dialect.closed.fullmatch(content) and dialect.width(content) == dialect.cells
            if is_whole and (content or dialect.cells > 1 or not self._pending):
                self._drop_pending()
                yield self._line, line
            elif dialect.opens.fullmatch(content):
                self._drop_pending()
                self._pending, self._begun = [line], self._line
            elif self._pending:
                yield from self._continue_record(line)
            elif content:
                self._drop(self._line, self._cells_of(content))

    def _continue_record(self, line: bytes) -> Iterator[tuple[int, bytes]]:
        self._pending.append(line)
        record = b"".join(self._pending)
        if len(record) > self._longest:
            self._drop_pending()
        elif self._dialect.whole.fullmatch(record.rstrip(b"\r\n")):
            self._pending = []
            yield self._begun, record

    def _as_text(self, line: bytes) -> bytes:
        if is_text(line):
            return line
        self.recoded_lines += 1
        try:
            return line.decode("cp1252").encode()
        except UnicodeDecodeError:
            return line.decode("latin-1").encode()

    def _cells_of(self, content: bytes) -> str:
        if not self._dialect.closed.fullmatch(content):
            return "has a quote that does not close"
        return f"has {self._dialect.width(content)} cells, the header {self._dialect.cells}"

    def _drop_pending(self) -> None:
        if self._pending:
            self._drop(self._begun, "opens a quote that does not close")
            self.dropped_lines += len(self._pending) - 1
            self._pending = []

    def _drop(self, line: int, words: str) -> None:
        self.dropped_lines += 1
        self.first_problem = self.first_problem or f"line {line} {words}"


def header_is_sound(path: Path, longest: int, delimiter: bytes) -> bool:
    header = header_of(path, longest)
    return len(header) < longest and dialect_of(delimiter).closed.fullmatch(header) is not None


def header_of(path: Path, longest: int) -> bytes:
    """The first line that is not blank."""
    with open_bytes(path) as file:
        start = file.read(longest).removeprefix(BYTE_ORDER_MARK).lstrip(b"\r\n")
    return _LINE_END.split(start, maxsplit=1)[0]


def is_text(text: bytes) -> bool:
    """Whether the bytes are UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _whole_lines(file: IO[bytes], longest: int) -> Iterator[bytes | None]:
    """Blocks of complete lines, and None for a line of more than `longest` bytes."""
    line, length = b"", 0  # the unfinished line; of a long one only its length
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
