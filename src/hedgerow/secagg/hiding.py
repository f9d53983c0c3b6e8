"""Turns a vector into what may leave: masked, with shares of the self-mask for the peers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from hedgerow.errors import SpecError
from hedgerow.secagg import masks, shamir
from hedgerow.secagg.epoch import Joined
from hedgerow.secagg.keys import seal_share
from hedgerow.secagg.masks import Int64, UInt64
from hedgerow.secagg.messages import LONGEST_VECTOR, Masked
from hedgerow.secagg.shamir import Entropy


@dataclass(frozen=True, slots=True)
class Hidden:
    """What leaves, and the secrets of the round that stay; the self-mask is in neither."""

    masked: Masked
    own_share: bytes = field(repr=False)
    seeds: dict[int, bytes] = field(repr=False)
    share_keys: dict[int, bytes] = field(repr=False)


def hide(
    vector: Int64,
    joined: Joined,
    context: bytes,
    participants: tuple[int, ...],
    threshold: int,
    entropy: Entropy,
) -> Hidden:
    """`vector` plus one self-mask, plus or minus one mask for each peer among `participants`.

    Of two sites the one with the lower id adds their common mask and the other takes it away.
    """
    me, peers = joined.me, joined.peers_in(participants)
    secret = shamir.random_element(entropy)
    shares = shamir.split(secret, threshold, [*peers, me], entropy)
    seeds = {peer: joined.seed(context, peer) for peer in peers}
    total = _masked(vector, masks.self_key(context, secret), seeds, me)
    sealed = {peer: _sealed(joined, context, peer, shares[peer]) for peer in peers}
    return Hidden(
        Masked(total, masks.commitment(context, secret), sealed),
        own_share=shamir.to_bytes(shares[me]),
        seeds=seeds,
        share_keys={peer: joined.key_from(context, peer) for peer in peers},
    )


def check_vector(vector: Int64) -> None:
    if vector.dtype != np.int64 or vector.ndim != 1 or not 1 <= len(vector) <= LONGEST_VECTOR:
        raise SpecError(
            f"a {vector.dtype} array of shape {vector.shape} cannot be masked; "
            "use int64, one axis, 1 to 2^32 numbers."
        )


def check_picks(picks: Iterable[int]) -> None:
    wrong = [pick for pick in picks if not 0 <= pick < 2**32]
    if wrong:
        raise SpecError(f"{wrong[0]} is no index of a selection; use 0 to 2^32 - 1.")


def _masked(vector: Int64, self_key: bytes, seeds: Mapping[int, bytes], me: int) -> UInt64:
    total = masks.to_ring(vector)
    above = [seed for peer, seed in seeds.items() if me < peer]
    below = [seed for peer, seed in seeds.items() if peer < me]
    masks.fold(total, plus=[self_key, *above], minus=below)
    return total


def _sealed(joined: Joined, context: bytes, peer: int, share: int) -> bytes:
    key = joined.key_to(context, peer)
    return seal_share(key, context, joined.me, peer, shamir.to_bytes(share))
