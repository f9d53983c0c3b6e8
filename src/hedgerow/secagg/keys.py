"""Who is who: long-term identities, the roster, and the keys two sites derive from each other.

Identities sign (Ed25519, RFC 8032). Ephemeral keys agree (X25519, RFC 7748); HKDF (RFC 5869)
turns each agreement into a root for one epoch, and the root into keys for one round.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from hedgerow.errors import PartyRefused, SpecError
from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.encoding import SEED, digest, ids
from hedgerow.secagg.shamir import PRIME

COORDINATOR = 2**16 - 1  # the id of the coordinator, which has no place in the ring
EVERYBODY = 2**16 - 2  # the receiver of what is relayed to all
PUBLIC_KEY = 32
_ORDER_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER = frozenset((0, 1, PRIME - 1, _ORDER_8, PRIME - _ORDER_8))
"""The second coordinates of the eight points of small order on the curve of Ed25519."""
_NONCE = bytes(12)  # a share key seals one share, so the nonce may be fixed


class Identity:
    """A long-term Ed25519 key pair. The secret half never leaves the machine that made it."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = key.public_key().public_bytes_raw()

    @classmethod
    def generate(cls) -> Identity:
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_bytes(cls, secret: bytes) -> Identity:
        return cls(Ed25519PrivateKey.from_private_bytes(secret))

    def to_bytes(self) -> bytes:
        """The secret half, for a file that only its owner can read."""
        return self._key.private_bytes_raw()

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.public)

    def derive(self, purpose: str) -> bytes:
        """A secret of its own for something else than signing; the same for as long as the key."""
        info = digest("derive", purpose.encode())
        return HKDF(SHA256(), SEED, salt=None, info=info).derive(self.to_bytes())

    def sign(self, message: bytes) -> bytes:
        """A signature made here is known to be right, should it be looked at in this process."""
        signature = self._key.sign(message)
        _found(self.public, signature, message)[:] = [True]
        return signature


@lru_cache(maxsize=4096)
def fingerprint(public: bytes) -> str:
    """What two people compare over the telephone before one pins the other."""
    return digest("fingerprint", public).hex()


@dataclass(frozen=True, slots=True)
class Roster:
    """Public keys of the sites, by id, and of the coordinator."""

    sites: tuple[bytes, ...]
    coordinator: bytes

    def __post_init__(self) -> None:
        everyone = (*self.sites, self.coordinator)
        for name, key in enumerate(everyone):
            if len(key) != PUBLIC_KEY:
                raise SpecError(f"key {name} of the roster has {len(key)} bytes; use 32.")
            if is_weak(key):
                raise SpecError(
                    f"key {name} of the roster is not one that anybody can hold alone; "
                    "make a new one with `Identity.generate`."
                )
            if key in everyone[:name]:
                raise SpecError(
                    f"keys {everyone.index(key)} and {name} of the roster are the same; "
                    "each site and the coordinator need a key of their own."
                )

    def __hash__(self) -> int:
        """By the coordinator: a thousand keys need not be looked at to tell rosters apart."""
        return hash((self.coordinator, len(self.sites)))

    def key_of(self, sender: int) -> bytes:
        if sender == COORDINATOR:
            return self.coordinator
        require(sender < len(self.sites), Code.UNKNOWN_KEY)
        return self.sites[sender]

    @property
    def fingerprints(self) -> frozenset[str]:
        """Of all sites: what a person pins who has compared every one of them."""
        return frozenset(map(fingerprint, self.sites))


def is_weak(key: bytes) -> bool:
    """A point of small order, for which signatures on anything can be made, or an odd spelling."""
    second = int.from_bytes(key, "little") & (2**255 - 1)
    return second >= PRIME or second in _SMALL_ORDER


def check_pins(roster: Roster, me: int, pinned: Collection[str], threshold: int) -> None:
    """Refuses a study in which too few peers are known to this site's own people.

    Otherwise a coordinator could bring puppets: every other key of the roster could be its own.
    """
    peers = [key for site, key in enumerate(roster.sites) if site != me]
    known = sum(fingerprint(key) in pinned for key in peers)
    require(known >= threshold - 1, Code.POLICY_REFUSED)


def verify(public: bytes, signature: bytes, message: bytes, code: Code) -> None:
    require(is_signed(public, signature, message), code)


def is_signed(public: bytes, signature: bytes, message: bytes) -> bool:
    """Kept: all sites of one process look at the same signatures, most of them made there."""
    found = _found(public, signature, message)
    if not found:
        found[:] = [_is_signed(public, signature, message)]
    return found[0]


@lru_cache(maxsize=4096)
def _found(public: bytes, signature: bytes, message: bytes) -> list[bool]:
    """Whether these very bytes were found signed; nothing if nobody has looked yet."""
    return []


def _is_signed(public: bytes, signature: bytes, message: bytes) -> bool:
    try:
        _loaded(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


@lru_cache(maxsize=4096)
def _loaded(public: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(public)


def shared_secret(private: X25519PrivateKey, peer: bytes) -> bytes:
    """The shared secret; refuses points that would make it the same for everybody.

    Honest software sends reduced coordinates only, so a second spelling of a key is refused too.
    """
    require(int.from_bytes(peer, "little") < PRIME, Code.WEAK_KEY)
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(peer))
    except ValueError:  # raised when the result is all zero
        raise PartyRefused(Code.WEAK_KEY.value) from None


def root(shared: bytes, epoch_id: bytes, low: tuple[int, bytes], high: tuple[int, bytes]) -> bytes:
    """Root of two sites for one epoch; `low` and `high` are (id, ephemeral key) in order of ids."""
    info = b"root" + ids((low[0], high[0])) + low[1] + high[1]
    return HKDF(SHA256(), SEED, salt=epoch_id, info=info).derive(shared)


def pair_seed(root: bytes, context: bytes, one: int, other: int) -> bytes:
    """Key of the mask that two sites add with opposite signs, for one round only.

    This is all a site ever reveals about a lost peer. It opens neither another round nor a key.
    """
    return _expanded(root, b"pair" + context + ids(sorted((one, other))))


def share_key(root: bytes, context: bytes, sender: int, receiver: int) -> bytes:
    """Key that seals one share, once."""
    return _expanded(root, b"share" + context + ids((sender, receiver)))


def _expanded(root: bytes, info: bytes) -> bytes:
    """HKDF-Expand of RFC 5869 to one block of SHA-256, which is all that a key takes."""
    return hmac.digest(root, info + b"\x01", "sha256")


def seal_share(key: bytes, context: bytes, sender: int, receiver: int, share: bytes) -> bytes:
    """AES-256-GCM: only the receiver reads the share, only for this round and this sender."""
    return AESGCM(key).encrypt(_NONCE, share, context + ids((sender, receiver)))


def open_share(key: bytes, context: bytes, sender: int, receiver: int, sealed: bytes) -> bytes:
    try:
        return AESGCM(key).decrypt(_NONCE, sealed, context + ids((sender, receiver)))
    except InvalidTag:
        raise PartyRefused(Code.BAD_SHARE.value) from None
