"""Randomized response: a label is reported wrongly with a known probability.

It protects labels only, record by record, against everybody. A record's answer is drawn once:
drawing it again in another run or after a restart would be a second release. So the random words
are an argument: a function of the site's stored secret and the record's own id.

Probabilities are multiples of 2^-64, so one word decides, and every stated epsilon is that of the
law as drawn, rounded up. Proofs: docs/proofs/samplers.md, section 8.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import ParameterError
from hedgerow.privacy.mechanisms.coins import Randomness, exp_bounds
from hedgerow.schema.arrays import FloatArray, IntArray, Words, freeze

Bits = NDArray[np.uint8]

ALL_WORDS: Final = 2**64
_CODE_ATTEMPTS: Final = 4096
_CERTIFIED_BITS: Final = 192
_KEEP_STEPS: Final = 2**32
HASHES: Final = 2
BITS_PER_CLASS: Final = 2  # enough that codes of labels seldom collide
_MOST_STEPS: Final = 400
_NEAR: Final = 1e-7


@dataclass(frozen=True, slots=True)
class RandomizedResponse:
    """One of `classes` labels: the true one for `honest_words` of the 2^64 words, else another.

    Warner 1965, for any number of classes. The other labels are equally likely.
    """

    classes: int
    honest_words: int

    def __post_init__(self) -> None:
        if self.classes < 2:
            raise ParameterError(f"there are {self.classes} classes; randomized response needs 2.")
        lies = ALL_WORDS - self.honest_words
        if lies <= 0 or lies % (self.classes - 1) or self.epsilon_ratio < 1:
            raise ParameterError(
                f"{self.honest_words} honest words of 2^64 do not leave {self.classes - 1} equal "
                "and smaller parts; use RandomizedResponse.for_epsilon."
            )

    @classmethod
    def for_epsilon(cls, classes: int, epsilon: Fraction) -> RandomizedResponse:
        """The most truthful response that costs at most epsilon."""
        if not (epsilon > 0 and classes >= 2):
            raise ParameterError(
                f"epsilon {epsilon} for {classes} classes; use above 0 and at least 2."
            )
        odds = exp_bounds(epsilon, 128)[1]  # 2^128 exp(-epsilon), rounded up
        each_lie = -(-(ALL_WORDS * odds) // ((1 << 128) + (classes - 1) * odds))
        return cls(classes, ALL_WORDS - (classes - 1) * each_lie)

    @property
    def keep(self) -> Fraction:
        """Probability of the true label."""
        return Fraction(self.honest_words, ALL_WORDS)

    @property
    def each_other(self) -> Fraction:
        """Probability of each of the other labels."""
        return (1 - self.keep) / (self.classes - 1)

    @property
    def epsilon_ratio(self) -> Fraction:
        return self.keep / self.each_other

    @property
    def epsilon(self) -> float:
        """ln(p (C - 1) / (1 - p)), rounded up: the exact loss of one answer."""
        return log_up(self.epsilon_ratio)

    def respond(self, labels: IntArray, words: Words) -> IntArray:
        """One answer per label, decided by one word each."""
        honest = np.uint64(self.honest_words)
        width = np.uint64((ALL_WORDS - self.honest_words) // (self.classes - 1))
        other_label = ((words - honest) // width).astype(np.int64)  # 0 .. C-2 for a lie
        return np.where(words < honest, labels, other_label + (other_label >= labels))

    def estimate_counts(self, counts: IntArray) -> FloatArray:
        """(..., C) estimates of the true label counts from the counts of answers."""
        other_odds, all_answers = float(self.each_other), counts.sum(axis=-1, keepdims=True)
        return np.asarray((counts - all_answers * other_odds) / (float(self.keep) - other_odds))


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomRandomizedResponse:
    """Labels as noisy bit strings: Liu et al. 2020 (Federated Extra-Trees), after RAPPOR.

    A label sets `hashes` of `bits` bits. The *permanent* string, drawn once per record, keeps a bit
    with probability `keep` and else flips a fair coin. Each query gets an *instant* report: a
    permanent 1 is sent as 1 with probability `one_if_set`, a 0 with `one_if_clear`. Departures from
    the paper: every label sets exactly `hashes` different bits, label counts are identifiable (by a
    public search for the hash salt), and probabilities are rounded to 2^-64, toward privacy.
    """

    classes: int
    bits: int
    hashes: int
    keep: Fraction
    one_if_set: Fraction = Fraction(3, 4)
    one_if_clear: Fraction = Fraction(1, 4)

    def __post_init__(self) -> None:
        if not 0 < self.keep < 1:
            raise ParameterError(f"keep is {self.keep}; use a Fraction between 0 and 1.")
        if not 0 < self.one_if_clear < self.one_if_set < 1:
            raise ParameterError(
                f"instant bits are 1 with {self.one_if_clear} and {self.one_if_set}; "
                "use 0 < one_if_clear < one_if_set < 1."
            )
        codebook(self.classes, self.bits, self.hashes)

    @classmethod
    def for_epsilon(
        cls, classes: int, bits: int, hashes: int, epsilon: Fraction
    ) -> BloomRandomizedResponse:
        """The most truthful permanent bits that cost at most epsilon, however often reported."""
        if not epsilon > 0:
            raise ParameterError(f"epsilon is {epsilon}; use a number above 0.")
        apart = _farthest(codebook(classes, bits, hashes))
        steps = int(math.tanh(float(epsilon) / (2 * apart)) * _KEEP_STEPS)
        for keep in range(min(steps + 1, _KEEP_STEPS - 1), 0, -1):  # one of the first few fits
            reports = cls(
                classes=classes, bits=bits, hashes=hashes, keep=Fraction(keep, _KEEP_STEPS)
            )
            if reports.epsilon_forever <= epsilon:
                return reports
        raise ParameterError(
            f"epsilon {epsilon} is too small for {hashes} hashes; use a larger one."
        )

    @classmethod
    def of_labels(cls, classes: int, epsilon: Fraction) -> BloomRandomizedResponse:
        """The filter of FET-LDP (Liu et al. 2020): two hashes into two bits per class."""
        return cls.for_epsilon(classes, BITS_PER_CLASS * classes, HASHES, epsilon)

    @property
    def code(self) -> Bits:
        """(C, bits): the bits that each label sets."""
        return codebook(self.classes, self.bits, self.hashes)

    def permanent(self, labels: IntArray, words: Words) -> Bits:
        """(n, bits) permanent strings, from (n, bits) words that never change for a record."""
        return np.asarray(self.code[labels] ^ (words < np.uint64(self._flip_words)))

    def instant(self, permanent: Bits, secret: Randomness) -> Bits:
        """One report per record, (n, bits), with fresh coins."""
        words = secret.words(permanent.size).reshape(permanent.shape)
        ones = np.where(permanent == 1, *(np.uint64(w) for w in self._one_words))
        return (words < ones).astype(np.uint8)

    def decode(self, ones: FloatArray | IntArray, records: FloatArray | IntArray) -> FloatArray:
        """(..., C) label counts, >= 0, from the ones in each bit (..., bits), by least squares."""
        one_odds, zero_odds = (float(p) for p in self._report_odds)
        bit_estimates = (ones - zero_odds * np.asarray(records, np.float64)[..., None]) / (
            one_odds - zero_odds
        )
        return non_negative(self.code.T.astype(np.float64), bit_estimates)

    @property
    def spread(self) -> float:
        """Variance of a decoded label count per record, without the constraint >= 0."""
        one_odds, zero_odds = (float(p) for p in self._report_odds)
        per_bit = zero_odds * (1.0 - zero_odds) / (one_odds - zero_odds) ** 2
        code = self.code.astype(np.float64)
        return float(per_bit * np.trace(np.linalg.inv(code @ code.T)) / self.classes)

    @property
    def epsilon_forever(self) -> float:
        """Epsilon of any number of reports: d ln((1 + keep) / (1 - keep)), d <= 2 `hashes` bits."""
        flip = Fraction(self._flip_words, ALL_WORDS)
        return self._epsilon(1 - flip, flip)

    @property
    def epsilon_once(self) -> float:
        """Epsilon of one report: d/2 ln(P1 (1 - P0) / (P0 (1 - P1)))."""
        return self._epsilon(*self._report_odds)

    @property
    def _flip_words(self) -> int:
        return math.ceil(ALL_WORDS * (1 - self.keep) / 2)

    @property
    def _one_words(self) -> tuple[int, int]:
        """The words that send 1, for a permanent 1 and for a 0; rounded toward each other."""
        return int(ALL_WORDS * self.one_if_set), math.ceil(ALL_WORDS * self.one_if_clear)

    @property
    def _report_odds(self) -> tuple[Fraction, Fraction]:
        """P1 and P0: the chance of sending 1 for a bit that the label sets, and for others."""
        flip = Fraction(self._flip_words, ALL_WORDS)
        one_odds, zero_odds = (Fraction(w, ALL_WORDS) for w in self._one_words)
        return (1 - flip) * one_odds + flip * zero_odds, flip * one_odds + (1 - flip) * zero_odds

    def _epsilon(self, one_odds: Fraction, zero_odds: Fraction) -> float:
        """Two labels set equally many bits, so half of the differing bits go each way."""
        ratio = one_odds * (1 - zero_odds) / (zero_odds * (1 - one_odds))
        return math.nextafter(_farthest(self.code) // 2 * log_up(ratio), math.inf)


def non_negative(matrix: FloatArray, targets: FloatArray) -> FloatArray:
    """(..., C) the x >= 0 for which `matrix` x is nearest to each of (..., bits).

    Where plain least squares is nonnegative it is the answer; elsewhere accelerated projected
    gradients (Beck and Teboulle 2009) start from it, for all cells of a level together.
    """
    gram, towards = matrix.T @ matrix, targets @ matrix
    x = towards @ np.linalg.inv(gram)  # symmetric; solving cell by cell would factor it each time
    rows = (x < 0.0).any(axis=-1)
    aim, step = towards[rows], 1.0 / float(np.linalg.norm(gram, 2))
    best = point = np.maximum(x[rows], 0.0)
    pace = 1.0
    for _ in range(_MOST_STEPS):
        after = np.maximum(point - step * (point @ gram - aim), 0.0)
        if float(np.abs(after - best).max(initial=0.0)) < _NEAR * (
            1.0 + float(np.abs(best).max(initial=0.0))
        ):
            best = after
            break
        faster = (1.0 + math.sqrt(1.0 + 4.0 * pace * pace)) / 2.0
        point, best, pace = after + (pace - 1.0) / faster * (after - best), after, faster
    x[rows] = best
    return x


def _farthest(code: Bits) -> int:
    """The largest number of bits in which two labels differ."""
    return max(int((a != b).sum()) for a in code for b in code)


@lru_cache(maxsize=64)
def codebook(classes: int, bits: int, hashes: int) -> Bits:
    """Public bit strings (C, bits), linearly independent, so that counts are identifiable."""
    if not (classes >= 2 and bits >= classes and 1 <= hashes < bits):
        raise ParameterError(
            f"{classes} classes in {bits} bits by {hashes} hashes; use 2 classes or more, at "
            "least as many bits as classes and fewer hashes than bits."
        )
    if hashes == 1:  # one bit for every label; a search may fail
        return freeze(np.eye(classes, bits, dtype=np.uint8))
    for salt in range(_CODE_ATTEMPTS):
        code = np.array([_bloom(salt, label, bits, hashes) for label in range(classes)], np.uint8)
        if np.linalg.matrix_rank(code) == classes:
            return freeze(code)
    raise ParameterError(
        f"no independent code for {classes} classes in {bits} bits; use more bits."
    )


def _bloom(salt: int, label: int, bits: int, hashes: int) -> list[int]:
    """`hashes` different positions, from SHA-256 of a counter."""
    chosen: set[int] = set()
    counter = 0
    while len(chosen) < hashes:
        digest = hashlib.sha256(f"hedgerow/bloom/1/{salt}/{label}/{counter}".encode()).digest()
        chosen.add(int.from_bytes(digest, "big") % bits)
        counter += 1
    return [int(position in chosen) for position in range(bits)]


def log_up(ratio: Fraction) -> float:
    """A float that is certified to be at least ln(ratio), and close to it; ratio >= 1."""
    guess = math.log1p((ratio.numerator - ratio.denominator) / ratio.denominator)
    most = ratio.denominator << _CERTIFIED_BITS
    while exp_bounds(Fraction(guess), _CERTIFIED_BITS)[1] * ratio.numerator > most:
        guess = math.nextafter(guess, math.inf)
    return guess
