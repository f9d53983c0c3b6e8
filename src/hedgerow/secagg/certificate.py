"""Signatures of the members of a set on the set itself.

A coordinator could tell one half of the sites that the other half is lost, and the other way
round, and so open two small sums. It cannot get `threshold` signatures on both sets: a site
signs one set a round, and the sets that hold so many signatures share honest sites.
"""

from __future__ import annotations

from collections.abc import Mapping

from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.encoding import digest, ids
from hedgerow.secagg.keys import Roster, verify


def set_digest(context: bytes, members: tuple[int, ...]) -> bytes:
    """What a site signs to say that these members' sum may be opened."""
    return digest("set", context, ids(members))


def check_certificate(
    certificate: Mapping[int, bytes],
    members: tuple[int, ...],
    context: bytes,
    roster: Roster,
    threshold: int,
) -> None:
    """Refuses unless `threshold` members signed, and every signature is a member's and good."""
    require(len(certificate) >= threshold, Code.BAD_CERTIFICATE)
    require(set(certificate) <= set(members), Code.BAD_CERTIFICATE)
    signed = set_digest(context, members)
    for signer, signature in certificate.items():
        verify(roster.sites[signer], signature, signed, Code.BAD_CERTIFICATE)
