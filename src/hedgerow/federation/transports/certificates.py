"""Certificates for the HTTPS transport; no secret key leaves its machine.

    site          makes a key, keeps it, and asks for a certificate (`Request`), signed with its
                  identity, the key that the study's roster will name
    coordinator   has its own authority and signs requests that come with a token, no others
    site          accepts the certificate if the authority's fingerprint is that of its token

A certificate contains the site's name in the roster. It admits to the listener and nothing more:
every message is signed with identities, so a stolen certificate cannot answer for a site.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hedgerow.errors import ParameterError
from hedgerow.privacy.ledger.store import make_private, write_private
from hedgerow.secagg.encoding import digest
from hedgerow.secagg.keys import Identity, is_signed

AUTHORITY_DAYS = 3650
CERTIFICATE_DAYS = 397
_EARLIER = dt.timedelta(days=2)
"""How far a site's clock may lag; what it signs and charges needs no clock."""

Key = ec.EllipticCurvePrivateKey


# Requests.
@dataclass(frozen=True)
class Request:
    """A site's request for a certificate: public keys only, signed with its identity."""

    name: str
    identity: bytes
    csr: bytes
    signature: bytes

    @classmethod
    def make(cls, name: str, identity: Identity, key: Key) -> Request:
        built = x509.CertificateSigningRequestBuilder().subject_name(_subject(name))
        csr = built.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        return cls(name, identity.public, csr, identity.sign(_request_digest(name, csr)))

    def to_text(self) -> str:
        content = {
            "hedgerow": "request for a certificate",
            "name": self.name,
            "identity": self.identity.hex(),
            "request": self.csr.decode("ascii"),
            "signature": self.signature.hex(),
        }
        return json.dumps(content, indent=2) + "\n"

    @classmethod
    def parse(cls, content: str) -> Request:
        try:
            raw = json.loads(content)
            return cls(
                name=raw["name"],
                identity=bytes.fromhex(raw["identity"]),
                csr=raw["request"].encode("ascii"),
                signature=bytes.fromhex(raw["signature"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ParameterError(
                f"this is no request for a certificate ({error}); a site makes one with "
                "`hedgerow site enroll`."
            ) from None

    def checked(self) -> x509.CertificateSigningRequest:
        """The request inside, if its identity has signed it and it carries its name."""
        csr = x509.load_pem_x509_csr(self.csr)
        if (
            not is_signed(self.identity, self.signature, _request_digest(self.name, self.csr))
            or not csr.is_signature_valid
            or csr.subject != _subject(self.name)
        ):
            raise ParameterError(
                f"the request for {self.name!r} was changed on its way; nothing was signed. "
                "Ask the site for a new one."
            )
        return csr


def _request_digest(name: str, csr: bytes) -> bytes:
    return digest("certificate request", name.encode(), csr)


# Authority.
class Authority:
    """The coordinator's authority: a key and a self-signed certificate in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.certificate = x509.load_pem_x509_certificate((folder / "authority.crt").read_bytes())
        self._key = load_key(folder / "authority.key")

    @classmethod
    def open(cls, folder: Path) -> Authority:
        """The authority of the folder; the first time it is created."""
        make_private(folder)
        if not (folder / "authority.key").exists():
            key = new_key()
            certificate = _issue(
                "hedgerow authority", key, key, AUTHORITY_DAYS, "hedgerow authority"
            )
            (folder / "authority.crt").write_bytes(_pem(certificate))
            write_private(folder / "authority.key", key_bytes(key))
        return cls(folder)

    @property
    def fingerprint(self) -> str:
        return certificate_fingerprint(self.certificate)

    def sign(self, request: Request) -> bytes:
        """The certificate for a site, followed by the authority's own."""
        csr = request.checked()
        key = csr.public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise ParameterError(
                f"the request for {request.name!r} has a key of another kind than P-256."
            )
        issuer = _common_name(self.certificate.subject)
        site = _issue(
            request.name, key, self._key, CERTIFICATE_DAYS, issuer,
            usage=ExtendedKeyUsageOID.CLIENT_AUTH,
        )  # fmt: skip
        return _pem(site) + _pem(self.certificate)

    def server_context(self, hosts: list[str]) -> ssl.SSLContext:
        """For the coordinator's listener under these names: TLS 1.3, with client certificates.

        The listener's own certificate is new each time and lives as long as the process.
        """
        key = new_key()
        names = [_host(host) for host in hosts]
        issuer = _common_name(self.certificate.subject)
        listener = _issue(
            hosts[0], key, self._key, CERTIFICATE_DAYS, issuer,
            usage=ExtendedKeyUsageOID.SERVER_AUTH, hosts=names,
        )  # fmt: skip
        chain = self._folder / "listener.pem"
        write_private(chain, _pem(listener) + key_bytes(key))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(self._folder / "authority.crt")
        context.load_cert_chain(chain)
        chain.unlink()  # a context can be loaded from files only; the key is then in memory alone
        return context


# At the site's end.
def accept_certificate(reply: bytes, fingerprint: str, key: Key, name: str) -> tuple[bytes, bytes]:
    """(certificate, authority) from a reply, if the authority has the confirmed fingerprint."""
    try:
        site, authority = x509.load_pem_x509_certificates(reply)
    except ValueError:
        raise ParameterError(
            "the reply does not hold two certificates, the site's and the authority's; ask the "
            "coordinator for a new token."
        ) from None
    result = certificate_fingerprint(authority)
    if _plain(fingerprint) != _plain(result):
        raise ParameterError(
            f"the authority's fingerprint is {result}, and {fingerprint} was given; nothing was "
            "kept. Ask the coordinator out of band (telephone): somebody may stand in between."
        )
    try:
        site.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        raise ParameterError(
            "the certificate was not signed by that authority; nothing was kept."
        ) from None
    if site.public_key() != key.public_key() or _common_name(site.subject) != name:
        raise ParameterError(
            f"the certificate is not for this site, {name!r}, and its key; nothing was kept."
        )
    return _pem(site), _pem(authority)


def certificate_fingerprint(certificate: x509.Certificate) -> str:
    """As `openssl x509 -fingerprint -sha256` prints it, for people to compare."""
    return certificate.fingerprint(hashes.SHA256()).hex(":").upper()


def authority_id(certificate: bytes) -> str:
    """A short name for the folder of an authority."""
    return _plain(certificate_fingerprint(x509.load_pem_x509_certificate(certificate)))[:16].lower()


def _plain(fingerprint: str) -> str:
    return fingerprint.upper().removeprefix("SHA256:").replace(":", "").replace(" ", "")


# Keys.
def new_key() -> Key:
    return ec.generate_private_key(ec.SECP256R1())


def key_bytes(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def load_key(path: Path) -> Key:
    key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ParameterError(
            f"{path} holds a key of another kind than P-256; bring the old one back."
        )
    return key


# Certificates.
def _issue(
    name: str,
    key: Key | ec.EllipticCurvePublicKey,
    signer: Key,
    days: int,
    issuer: str,
    *,
    usage: x509.ObjectIdentifier | None = None,
    hosts: list[x509.GeneralName] | None = None,
) -> x509.Certificate:
    """Issues a certificate; without a usage it is an authority's own."""
    public = key.public_key() if isinstance(key, ec.EllipticCurvePrivateKey) else key
    now = _now()
    own = x509.SubjectKeyIdentifier.from_public_key(public)
    above = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    built = (
        x509.CertificateBuilder()
        .subject_name(_subject(name))
        .issuer_name(_subject(issuer))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + dt.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=usage is None, path_length=None), critical=True)
        .add_extension(_key_usage(signs=usage is None), critical=True)
        .add_extension(own, critical=False)
        .add_extension(above, critical=False)
    )
    if usage is not None:
        built = built.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    if hosts:
        built = built.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    return built.sign(signer, hashes.SHA256())


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    other = "content_commitment key_encipherment data_encipherment key_agreement"
    never = dict.fromkeys((*other.split(), "encipher_only", "decipher_only"), False)
    return x509.KeyUsage(digital_signature=not signs, key_cert_sign=signs, crl_sign=signs, **never)


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _common_name(subject: x509.Name) -> str:
    (result,) = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(result.value)


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
