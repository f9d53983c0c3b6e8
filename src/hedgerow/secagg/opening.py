"""Removes the masks of a sum, given the members' answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hedgerow.errors import RoundFailed, SiteRefused
from hedgerow.secagg import masks, shamir
from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.encoding import digest, ids, u16
from hedgerow.secagg.keys import Roster, fits_key, fits_share, open_share, verify_signature
from hedgerow.secagg.masks import Int64, UInt64
from hedgerow.secagg.messages import Shares

# Signatures of the members of a set on the set itself. A coordinator could tell one half of the
# sites that the other half is lost, and vice versa, and so open two small sums. It cannot get
# `threshold` signatures on both sets: a site signs one set per round, and two sets with so many
# signatures share honest sites.


def set_digest(context: bytes, members: tuple[int, ...]) -> bytes:
    """What a site signs to confirm that these members' sum may be opened."""
    return digest("set", context, ids(members))


def check_certificate(
    certificate: Mapping[int, bytes],
    members: tuple[int, ...],
    context: bytes,
    roster: Roster,
    threshold: int,
) -> None:
    """Refuses unless `threshold` members signed, and every signature is a member's and valid."""
    require(len(certificate) >= threshold, Code.BAD_CERTIFICATE)
    require(set(certificate) <= set(members), Code.BAD_CERTIFICATE)
    content = set_digest(context, members)
    for signer, signature in certificate.items():
        verify_signature(roster.sites[signer], signature, content, Code.BAD_CERTIFICATE)


# Witnesses: a site whose process was started in the middle of a round asks the others. Its file may
# be an older copy, restored with its anchor, that lacks the set it signed or opened. Another set
# that was opened before has `threshold - colluders` honest sites bound to it; the other sites are
# too few for so many witnesses of this one (proofs/Protocol.v).


def witness_digest(context: bytes, members: tuple[int, ...], site: int, nonce: bytes) -> bytes:
    """What a witness signs, for one process of one site: these are the members."""
    return digest("witness", context, ids(members), u16(site), nonce)


def least_witnesses(participants: int, threshold: int, colluders: int) -> int:
    return participants - threshold + colluders + 1


class BadShares(RoundFailed):
    """The self-masks of `sites` did not come out as committed.

    All shares are as these sites committed to them, so they shared another secret.
    """

    def __init__(self, round: int, sites: tuple[int, ...]) -> None:
        super().__init__(
            f"round {round}: shares of sites {list(sites)} do not match their commitments. "
            "Nothing was opened; the charge stays. Ask again in a new round without them."
        )
        self.sites = sites


class MasksLeft(RoundFailed):
    """All vectors of a round that is opened at once arrived, and their masks do not cancel."""

    def __init__(self, round: int) -> None:
        super().__init__(
            f"round {round}: the masks of the vectors do not cancel: a site sent something else "
            "than its masked vector, or its keys are not those that its peers hold. Nothing was "
            "opened; the charge stays. Ask again in a new round, with new keys."
        )


class MissingVectors(RoundFailed):
    """A round that is opened at once lacks the vectors of `sites` and cannot be opened."""

    def __init__(self, round: int, sites: tuple[int, ...]) -> None:
        super().__init__(
            f"round {round}: sites {list(sites)} sent no vector, and it is opened when all have. "
            "Nothing was opened; the charge stays. Ask again in a new round without them."
        )
        self.sites = sites


@dataclass(frozen=True, slots=True)
class OpenedSum:
    """A sum, its members, their signatures (none if nobody was lost) and their selections."""

    values: Int64
    members: tuple[int, ...]
    certificate: Mapping[int, bytes]
    selections: Mapping[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class ShareVerdict:
    """A usable share, if there is one, and the site that is proved to have lied about it."""

    share: bytes | None
    liar: int | None = None
    is_open: bool = False
    """Whether owner or giver lied without proof of which."""


def judge_share(
    sealed_share: bytes, context: bytes, owner: int, giver: int, answer: Shares
) -> ShareVerdict:
    """Judges by what both have signed: `sealed_share` is the owner's, the answer is the giver's."""
    place = sealed_share, context, owner, giver
    if owner in answer.shares:
        share = answer.shares[owner]
        return ShareVerdict(share) if fits_share(*place, share) else ShareVerdict(None, giver)
    key = answer.complaints[owner]
    if not fits_key(*place, key):
        return ShareVerdict(None, is_open=True)
    try:
        return ShareVerdict(open_share(key, context, owner, giver, sealed_share), giver)
    except SiteRefused:
        return ShareVerdict(None, owner)


def givers(member: int, near: Iterable[int], answers: Mapping[int, Shares]) -> tuple[int, ...]:
    """The sites that answered with a share of `member`'s self-mask, in increasing order."""
    sites = (site for site in sorted({member, *near}) if site in answers)
    return tuple(site for site in sites if member in answers[site].shares)


def rebuild(member: int, givers: tuple[int, ...], answers: Mapping[int, Shares]) -> int:
    """The secret of `member`'s self-mask, from as many shares as its polynomial has terms."""
    shares = (shamir.from_bytes(answers[giver].shares[member]) for giver in givers)
    return shamir.combine(shares, shamir.weights(givers))


def check_commitments(
    round: int, secrets: Mapping[int, int], context: bytes, commitments: Mapping[int, bytes]
) -> None:
    wrong = tuple(
        member
        for member, secret in secrets.items()
        if masks.commitment(context, secret) != commitments[member]
    )
    if wrong:
        raise BadShares(round, wrong)


def take_masks_off(
    total: UInt64, self_keys: Iterable[bytes], answers: Mapping[int, Shares]
) -> None:
    """Removes self-masks and seeds towards lost sites, in place; masks between members cancelled.

    A member added its seed towards a lost site with a higher id, and subtracted it otherwise.
    """
    added_masks, subtracted_masks = list(self_keys), list[bytes]()
    for member, answer in answers.items():
        for lost, seed in answer.seeds.items():
            (added_masks if member < lost else subtracted_masks).append(seed)
    masks.fold(total, plus=subtracted_masks, minus=added_masks)
