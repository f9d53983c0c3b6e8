"""Secret randomness: fresh from the operating system, never seeded, never repeated after a fork.

Noise that somebody can draw again protects nobody, so nothing here takes a seed. Public choices
(feature draws, cut points) use a NumPy generator elsewhere; the two never meet.
"""

from __future__ import annotations

import os
from typing import Final, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

from hedgerow.schema.arrays import Words

_ZEROS: Final = memoryview(bytes(1 << 16))
_SPARE_WORDS: Final = 2  # the cipher may ask for one block of room beyond what it writes

_forks = 0  # how often this process's ancestors have forked since they imported this module


class Randomness(Protocol):
    """Where samplers take uniform bits from. Tests script it; the product has one: the OS."""

    def words(self, count: int) -> Words:
        """`count` fresh, independent, uniform 64-bit words, in an array of their own."""
        ...

    def bytes(self, count: int) -> bytes: ...


class SecretRandomness:
    """AES-256 in counter mode under 32 bytes from the OS. Make one per round; no thread shares it.

    It holds a key and a counter, no buffer of words. A forked child takes a new key before its
    first word; otherwise parent and child would draw the same noise, and the difference of their
    answers would show the data. For the same reason an instance cannot be pickled.
    """

    __slots__ = ("_forks_seen", "_stream")

    def __init__(self) -> None:
        self._stream = _fresh_stream()
        self._forks_seen = _forks

    def words(self, count: int) -> Words:
        out = np.empty(count + _SPARE_WORDS, np.dtype("<u8"))
        view = out.data.cast("B")
        stream = self._current_stream()
        for start in range(0, 8 * count, len(_ZEROS)):
            stream.update_into(_ZEROS[: min(len(_ZEROS), 8 * count - start)], view[start:])
        return out[:count]

    def bytes(self, count: int) -> bytes:
        return self._current_stream().update(bytes(count))

    def _current_stream(self) -> CipherContext:
        if self._forks_seen != _forks:
            self._stream, self._forks_seen = _fresh_stream(), _forks
        return self._stream


def uniform_below(n: int, secret: Randomness) -> int:
    """An integer uniform on 0 .. n-1, exactly: too large a draw is thrown away."""
    bits = (n - 1).bit_length()
    surplus = -bits % 8
    while True:
        candidate = int.from_bytes(secret.bytes((bits + 7) // 8), "little") >> surplus
        if candidate < n:
            return candidate


def _fresh_stream() -> CipherContext:
    # The key is used for this one stream, so the counter may start at zero.
    return Cipher(algorithms.AES256(os.urandom(32)), modes.CTR(bytes(16))).encryptor()


def _note_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_note_fork)
