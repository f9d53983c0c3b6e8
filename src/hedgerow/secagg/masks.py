"""Pairwise masks: pseudorandom streams that cancel in the sum.

A stream is AES-256 in counter mode from a zero counter, read as little-endian uint64. A key masks
one vector only: it is bound to study, key session, round, bundle and participants.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from hedgerow.secagg.encoding import digest
from hedgerow.secagg.shamir import to_bytes

UInt64: TypeAlias = NDArray[np.uint64]
Int64: TypeAlias = NDArray[np.int64]

MASK_WORD = np.dtype("<u8")
_BLOCK = 16
_CHUNK_WORDS = 1 << 14  # 128 KiB: the running total and one piece of stream stay in cache
_ZEROS = memoryview(bytes(_CHUNK_WORDS * MASK_WORD.itemsize))


def fold(total: UInt64, plus: Iterable[bytes], minus: Iterable[bytes]) -> None:
    """Adds to `total`, in place and modulo 2^64, the streams of `plus`, less those of `minus`."""
    # NumPy integer arrays wrap around silently, which is the arithmetic wanted here.
    streams: list[tuple[CipherContext, np.ufunc]] = [(_stream(key), np.add) for key in plus]
    streams += [(_stream(key), np.subtract) for key in minus]
    longest = min(total.nbytes, len(_ZEROS))
    scratch = bytearray(longest + _BLOCK - 1)  # update_into needs one extra block
    for part in _chunks(total):
        words = np.frombuffer(scratch, MASK_WORD, count=len(part))
        zeros = _ZEROS[: part.nbytes]
        for stream, operation in streams:
            stream.update_into(zeros, scratch)
            operation(part, words, out=part)


def self_key(context: bytes, secret: int) -> bytes:
    """Key of the mask that only a threshold of sites can remove."""
    return digest("self", context, to_bytes(secret))


def commitment(context: bytes, secret: int) -> bytes:
    """Proves later that the secret rebuilt from shares is the one that was used."""
    return digest("commit", context, to_bytes(secret))


def to_ring(vector: Int64) -> UInt64:
    """A copy of `vector` modulo 2^64."""
    return np.array(vector, dtype="<i8").view(MASK_WORD)


def center(total: UInt64) -> Int64:
    """The representative in [-2^63, 2^63), so that sums of either sign are restored."""
    return total.view("<i8").astype(np.int64, copy=False)


def _stream(key: bytes) -> CipherContext:
    return Cipher(algorithms.AES256(key), modes.CTR(bytes(_BLOCK))).encryptor()


def _chunks(total: UInt64) -> Iterator[UInt64]:
    for start in range(0, len(total), _CHUNK_WORDS):
        yield total[start : start + _CHUNK_WORDS]
