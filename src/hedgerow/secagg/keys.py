"""Long-term identities, the roster, and the keys that each pair of sites derives.

Identities sign messages with Ed25519 (RFC 8032), and documents that must convince for decades also
with ML-DSA-65 (FIPS 204). Two sites agree by X25519 (RFC 7748) and ML-KEM-768 (FIPS 203) together,
so that recorded traffic stays secret while either holds; HKDF (RFC 5869) turns both secrets into a
root for one key session, and the root into keys for one round.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache

import cryptography
from cryptography.exceptions import InvalidSignature, InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PrivateKey, MLDSA65PublicKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from hedgerow.errors import ParameterError, SiteRefused
from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.encoding import DIGEST, SEALED, SEED, digest, ids
from hedgerow.secagg.shamir import PRIME, Entropy

COORDINATOR = 2**16 - 1  # the id of the coordinator, which has no place in the ring
EVERYBODY = 2**16 - 2  # the receiver of messages to all
PUBLIC_KEY = 32
IDENTITY = PUBLIC_KEY + DIGEST
"""An Ed25519 key, and the hash of the ML-DSA-65 key of the same site."""
_ORDER_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER = frozenset((0, 1, PRIME - 1, _ORDER_8, PRIME - _ORDER_8))
"""The second coordinates of the eight points of small order on the curve of Ed25519."""
_NONCE = bytes(12)  # a share key seals one share, so the nonce may be fixed


class Identity:
    """A long-term key pair of each kind. The secret half never leaves the machine that made it.

    The ML-DSA-65 key is derived from the seed of the other by HKDF. Whoever computes an Ed25519
    secret scalar from the public key still lacks the seed, of which the scalar is a hash.
    """

    def __init__(self, key: Ed25519PrivateKey) -> None:
        check_cryptography()
        self._key = key
        self._lasting = MLDSA65PrivateKey.from_seed_bytes(self.derive("ML-DSA-65"))
        self.lasting = self._lasting.public_key().public_bytes_raw()
        self.public = key.public_key().public_bytes_raw() + lasting_digest(self.lasting)

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
        """A secret for another purpose than signing, which never changes for this key."""
        info = digest("derive", purpose.encode())
        return HKDF(SHA256(), SEED, salt=None, info=info).derive(self.to_bytes())

    def sign(self, message: bytes) -> bytes:
        """Signs, and caches that this signature is valid, in case this process verifies it."""
        signature = self._key.sign(message)
        _verdicts(self.public, signature, message)[:] = [True]
        return signature

    def sign_lasting(self, message: bytes) -> bytes:
        """Signs with ML-DSA-65; the bytes differ each time."""
        return self._lasting.sign(message)


@lru_cache(maxsize=1)
def check_cryptography() -> None:
    """Raises at the start if the installed library cannot make the keys."""
    try:
        MLKEM768PrivateKey.generate()
        MLDSA65PrivateKey.generate()
    except UnsupportedAlgorithm:
        raise ParameterError(
            f"the installed cryptography {cryptography.__version__} makes no ML-KEM-768 and "
            "ML-DSA-65 keys; hedgerow needs version 48 or newer: pip install 'cryptography>=48'."
        ) from None


def lasting_digest(key: bytes) -> bytes:
    """The hash of an ML-DSA-65 key, as a roster has it."""
    return digest("mldsa", key)


def is_signed_lasting(public: bytes, key: bytes, signature: bytes, message: bytes) -> bool:
    """Whether the site with identity `public` signed; `key` is the ML-DSA-65 key it sent."""
    if lasting_digest(key) != public[PUBLIC_KEY:]:
        return False
    try:
        MLDSA65PublicKey.from_public_bytes(key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


@lru_cache(maxsize=4096)
def fingerprint(public: bytes) -> str:
    """The text that two people compare out of band before one pins the other."""
    return digest("fingerprint", public).hex()


@dataclass(frozen=True, slots=True)
class Roster:
    """Public identities of the sites, by id, and of the coordinator."""

    sites: tuple[bytes, ...]
    coordinator: bytes

    def __post_init__(self) -> None:
        everyone = (*self.sites, self.coordinator)
        for name, key in enumerate(everyone):
            if len(key) != IDENTITY:
                raise ParameterError(
                    f"key {name} of the roster has {len(key)} bytes; use {IDENTITY}."
                )
            if is_weak(key):
                raise ParameterError(
                    f"key {name} of the roster is not one that anybody can hold alone; "
                    "make a new one with `Identity.generate`."
                )
            signing = [public[:PUBLIC_KEY] for public in everyone]
            first = signing.index(key[:PUBLIC_KEY])
            if first < name:
                raise ParameterError(
                    f"keys {first} and {name} of the roster are the same; "
                    "each site and the coordinator need a key of their own."
                )

    def __hash__(self) -> int:
        """By the coordinator and the number of sites: a thousand keys need not be hashed."""
        return hash((self.coordinator, len(self.sites)))

    def key_of(self, sender: int) -> bytes:
        if sender == COORDINATOR:
            return self.coordinator
        require(sender < len(self.sites), Code.UNKNOWN_KEY)
        return self.sites[sender]

    @property
    def fingerprints(self) -> frozenset[str]:
        """Fingerprints of all sites: the pins of a person who has compared all of them."""
        return frozenset(map(fingerprint, self.sites))


def is_weak(key: bytes) -> bool:
    """Whether it is a point of small order, which verifies anything, or not in reduced form."""
    second = int.from_bytes(key[:PUBLIC_KEY], "little") & (2**255 - 1)
    return second >= PRIME or second in _SMALL_ORDER


_CONSONANTS, _VOWELS = "bdfghjklmnprstvz", "aiou"


def spoken_words(content: bytes) -> str:
    """Six words that anybody can say and spell: proquints of 16 bits each (Wilkerson 2009)."""
    start = digest("spoken words", content)[:12]
    return " ".join(_pronounce(int.from_bytes(start[k : k + 2])) for k in range(0, 12, 2))


def _pronounce(number: int) -> str:
    con, vow = _CONSONANTS, _VOWELS
    first = con[number >> 12] + vow[number >> 10 & 3] + con[number >> 6 & 15]
    return first + vow[number >> 4 & 3] + con[number & 15]


def check_pins(roster: Roster, me: int, pins: Collection[str], threshold: int) -> None:
    """Refuses a study with too few peers that this site's own people have pinned.

    Otherwise the coordinator could own every other key of the roster.
    """
    peers = [key for site, key in enumerate(roster.sites) if site != me]
    n_pinned = sum(fingerprint(key) in pins for key in peers)
    require(n_pinned >= threshold - 1, Code.POLICY_REFUSED)


def verify_signature(public: bytes, signature: bytes, message: bytes, code: Code) -> None:
    require(is_signed(public, signature, message), code)


def is_signed(public: bytes, signature: bytes, message: bytes) -> bool:
    """Whether a signature is valid; cached, since all sites of one process verify the same ones."""
    result = _verdicts(public, signature, message)
    if not result:
        result[:] = [_is_signed(public, signature, message)]
    return result[0]


@lru_cache(maxsize=4096)
def _verdicts(public: bytes, signature: bytes, message: bytes) -> list[bool]:
    """The cached verdict on these bytes; empty if they were never verified."""
    return []


def _is_signed(public: bytes, signature: bytes, message: bytes) -> bool:
    try:
        _load_key(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


@lru_cache(maxsize=4096)
def _load_key(public: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(public[:PUBLIC_KEY])


# The keys of a key session, and what two sites derive from theirs.


@dataclass(frozen=True, slots=True)
class EphemeralKeys:
    """A site's secret keys for one invitation; only its process has them."""

    agreement: X25519PrivateKey = field(repr=False)
    encapsulation: MLKEM768PrivateKey = field(repr=False)

    @classmethod
    def draw(cls, entropy: Entropy) -> EphemeralKeys:
        agreement = X25519PrivateKey.from_private_bytes(entropy(SEED))
        return cls(agreement, MLKEM768PrivateKey.from_seed_bytes(entropy(2 * SEED)))

    @property
    def public(self) -> tuple[bytes, bytes]:
        keys = self.agreement.public_key(), self.encapsulation.public_key()
        return keys[0].public_bytes_raw(), keys[1].public_bytes_raw()


def gives(site: int, peer: int) -> bool:
    """Whether `site` encapsulates to `peer`: one of two does, and each for half its peers."""
    return (site < peer) == ((site + peer) % 2 == 1)


def encapsulate(key: bytes) -> tuple[bytes, bytes]:
    """A secret for the owner of this ML-KEM-768 key, and its ciphertext."""
    try:
        return MLKEM768PublicKey.from_public_bytes(key).encapsulate()
    except ValueError:
        raise SiteRefused(Code.WEAK_KEY.value) from None


def decapsulate(private: MLKEM768PrivateKey, ciphertext: bytes) -> bytes:
    """Never fails on a changed ciphertext: the secret then differs, and no tag matches it."""
    try:
        return private.decapsulate(ciphertext)
    except ValueError:
        raise SiteRefused(Code.WEAK_KEY.value) from None


def shared_secret(private: X25519PrivateKey, peer: bytes) -> bytes:
    """The shared secret; refuses points that would make it the same for everybody.

    Honest software sends reduced coordinates only, so other encodings of a key are refused too.
    """
    require(int.from_bytes(peer, "little") < PRIME, Code.WEAK_KEY)
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(peer))
    except ValueError:  # raised when the result is all zero
        raise SiteRefused(Code.WEAK_KEY.value) from None


def root(
    secrets: tuple[bytes, bytes],
    session_id: bytes,
    low: tuple[int, bytes],
    high: tuple[int, bytes],
    ciphertext: bytes,
) -> bytes:
    """Root of two sites for one key session; `low` and `high` are (id, X25519 key) in order of ids.

    `secrets` are those of ML-KEM-768 and of X25519. Both encapsulation keys are in `session_id`.
    """
    info = b"root" + ids((low[0], high[0])) + low[1] + high[1] + digest("cipher", ciphertext)
    return HKDF(SHA256(), SEED, salt=session_id, info=info).derive(b"".join(secrets))


def confirmation(root: bytes, session_id: bytes, giver: int, taker: int) -> bytes:
    """Shows the taker that the giver has the same root."""
    return _expand(root, b"confirm" + session_id + ids((giver, taker)))


def pair_seed(root: bytes, context: bytes, site: int, peer: int) -> bytes:
    """Key of the mask that two sites add with opposite signs, for one round only.

    A site reveals nothing else about a lost peer. It opens neither another round nor a key.
    """
    return _expand(root, b"pair" + context + ids(sorted((site, peer))))


def share_key(root: bytes, context: bytes, sender: int, receiver: int) -> bytes:
    """Key that seals one share, once."""
    return _expand(root, b"share" + context + ids((sender, receiver)))


def _expand(root: bytes, info: bytes) -> bytes:
    """HKDF-Expand of RFC 5869 to one block of SHA-256, the length of a key."""
    return hmac.digest(root, info + b"\x01", "sha256")


def seal_share(key: bytes, context: bytes, sender: int, receiver: int, share: bytes) -> bytes:
    """AES-256-GCM: only the receiver reads the share, only for this round and this sender.

    Hashes of share and key are appended, by which anybody can prove later who lied.
    """
    place = context + ids((sender, receiver))
    ciphertext = AESGCM(key).encrypt(_NONCE, share, place)
    return ciphertext + digest("cs", place, share) + digest("kc", place, key)


def open_share(
    key: bytes, context: bytes, sender: int, receiver: int, sealed_share: bytes
) -> bytes:
    place = context + ids((sender, receiver))
    try:
        share = AESGCM(key).decrypt(_NONCE, sealed_share[:SEALED], place)
    except InvalidTag:
        raise SiteRefused(Code.BAD_SHARE.value) from None
    require(fits_share(sealed_share, context, sender, receiver, share), Code.BAD_SHARE)
    return share


def fits_share(
    sealed_share: bytes, context: bytes, sender: int, receiver: int, share: bytes
) -> bool:
    """Whether the sender has committed to this as the receiver's share."""
    place = context + ids((sender, receiver))
    return sealed_share[SEALED : SEALED + DIGEST] == digest("cs", place, share)


def fits_key(sealed_share: bytes, context: bytes, sender: int, receiver: int, key: bytes) -> bool:
    """Whether the sender has committed to this key."""
    return sealed_share[SEALED + DIGEST :] == digest("kc", context + ids((sender, receiver)), key)
