"""Enrollment by one token: a site and a coordinator exchange keys and certificates.

The coordinator invites a site with a token: its name, where to call, the fingerprint of the
coordinator's authority, an expiry date, and a one-time secret. The site makes its keys, keeps the
secret halves, and sends the public ones with a proof of the token's secret. It talks to nobody but
the authority that the token names. Both ends then show six words, derived from all public keys that
the two will trust; people compare them out of band before either end trusts the other.

    replay            a repeated request with the same keys gets a certificate for these keys again,
                      with other keys nothing: the first request uses the secret up
    a stolen token    whoever enrolls first has other keys, so other words; the site is then refused
    in the middle     TLS ends at the authority of the token; a forged token shows other words
    expiry            the coordinator's clock decides
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import secrets
import ssl
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Lock, Thread

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from hedgerow.deployment.live import LimitedServer
from hedgerow.deployment.run_folder import RunFolder
from hedgerow.deployment.site_state import StateFolder
from hedgerow.errors import EngineLost, ParameterError
from hedgerow.federation.audit_log import Audit
from hedgerow.federation.transports.caller import address_of
from hedgerow.federation.transports.certificates import (
    Authority,
    Request,
    accept_certificate,
    authority_id,
    certificate_fingerprint,
    key_bytes,
    load_key,
    new_key,
)
from hedgerow.privacy.ledger.store import make_private, write_private
from hedgerow.secagg.encoding import digest
from hedgerow.secagg.keys import spoken_words

DAYS = 7.0
"""Default validity of a token, in days."""
_MARK, _CHECK, _HEAD = "hr1-", 4, struct.Struct(">Q16s32s")
_LONGEST = 1 << 16
_CALL_SECONDS = 20.0
NOT_INVITED = "this token is not known here; ask the coordinator for a new one"


# Tokens.
@dataclass(frozen=True)
class SiteToken:
    """What one site needs to enroll; whoever has it can enroll in its place, once."""

    name: str
    url: str
    expires: int
    secret: bytes
    authority: bytes
    """SHA-256 of the authority's certificate."""

    def __str__(self) -> str:
        head = _HEAD.pack(self.expires, self.secret, self.authority)
        body = head + f"{self.name}\n{self.url}".encode()
        text = base64.urlsafe_b64encode(body + hashlib.sha256(body).digest()[:_CHECK])
        return _MARK + text.decode().rstrip("=")

    @classmethod
    def read(cls, text: str) -> SiteToken:
        plain = "".join(text.split()).removeprefix(_MARK)
        try:
            raw = base64.b64decode(plain + "=" * (-len(plain) % 4), altchars=b"-_", validate=True)
            body, check = raw[:-_CHECK], raw[-_CHECK:]
            expires, secret, authority = _HEAD.unpack_from(body)
            name, url = body[_HEAD.size :].decode().split("\n")
        except (ValueError, struct.error):
            check, body = b"", b"-"
        if hashlib.sha256(body).digest()[:_CHECK] != check:
            raise ParameterError(
                f"{text[:12]!r}... is no whole token; copy all that stands after `site enroll` in "
                "the coordinator's message."
            )
        address_of(url)
        return cls(name, url, expires, secret, authority)

    def proof(self, request: str) -> str:
        """Proves that the sender of exactly this request has the token."""
        content = digest(
            "enrollment", self.name.encode(), self.authority, str(self.expires).encode(),
            request.encode(),
        )  # fmt: skip
        return hmac.new(self.secret, content, hashlib.sha256).hexdigest()


# Words.
def _words_between(authority: bytes, coordinator: bytes, request: Request) -> str:
    """The words for all keys that one end takes from the other."""
    own = _public_bytes(request)
    return spoken_words(digest("enrollment words", authority, coordinator, request.identity, own))


def _public_bytes(request: Request) -> bytes:
    der, info = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return x509.load_pem_x509_csr(request.csr).public_key().public_bytes(der, info)


# The coordinator's end.
@dataclass(frozen=True)
class Invitation:
    """One line of the coordinator's list of tokens; it has keys once the site has enrolled."""

    secret: str
    expires: int
    url: str
    identity: str = ""
    tls_key: str = ""
    words: str = ""


class Enrollment:
    """The coordinator's tokens and who has used them, in a file readable by its owner alone."""

    def __init__(
        self, folder: RunFolder, coordinator: bytes, clock: Callable[[], float] = time.time
    ) -> None:
        self._file = folder.path / "enrollment.json"
        self.authority, self._coordinator = Authority.open(folder.authority), coordinator
        self._clock, self._changing = clock, Lock()
        self._fingerprint = bytes.fromhex(self.authority.fingerprint.replace(":", ""))
        self.invitations: dict[str, Invitation] = {}
        if self._file.exists():
            content = json.loads(self._file.read_text(encoding="utf-8"))
            self.invitations = {name: Invitation(**fields) for name, fields in content.items()}

    def invite(self, names: Iterable[str], url: str, days: float = DAYS) -> None:
        """Makes a token for each site that has neither enrolled nor a valid token."""
        address_of(url)
        now, old = self._clock(), self.invitations
        self.invitations = {}
        for name in names:
            fresh = Invitation(secrets.token_hex(16), int(now + days * 86_400), url)
            was = old.get(name, fresh)
            is_valid = was.identity or (was.expires > now and was.url == url)
            self.invitations[name] = was if is_valid else fresh
        self._keep()

    def withdraw(self, name: str) -> None:
        """Invalidates the site's token, or what it enrolled with."""
        if self.invitations.pop(name, None) is None:
            raise ParameterError(f"{name!r} was not invited; invited: {sorted(self.invitations)}.")
        self._keep()

    def token_of(self, name: str) -> SiteToken:
        invitation = self.invitations[name]
        secret = bytes.fromhex(invitation.secret)
        return SiteToken(name, invitation.url, invitation.expires, secret, self._fingerprint)

    @property
    def missing(self) -> list[str]:
        return [name for name, item in self.invitations.items() if not item.identity]

    @property
    def keys(self) -> dict[str, str]:
        return {name: item.identity for name, item in self.invitations.items() if item.identity}

    def admit(self, body: bytes) -> tuple[str, bytes]:
        """(site, reply) for one request; raises with a message that the caller may see."""
        try:
            content = json.loads(body)
            text, proof = str(content["request"]), str(content["proof"]).encode()
            request = Request.parse(text)
        except (ParameterError, ValueError, KeyError, TypeError, RecursionError):
            raise ParameterError(NOT_INVITED) from None
        with self._changing:
            invitation = self.invitations.get(request.name)
            if invitation is None or not hmac.compare_digest(
                self.token_of(request.name).proof(text).encode(), proof
            ):
                raise ParameterError(NOT_INVITED)
            return request.name, self._admit(request, invitation)

    def _admit(self, request: Request, invitation: Invitation) -> bytes:
        if invitation.expires <= self._clock():
            raise ParameterError("this token has expired; ask the coordinator for a new one")
        try:
            certificate = self.authority.sign(request)
            identity, tls_key = request.identity.hex(), _public_bytes(request).hex()
        except (ParameterError, ValueError) as error:
            raise ParameterError(str(error)) from None
        if invitation.identity and (identity, tls_key) != (invitation.identity, invitation.tls_key):
            raise ParameterError(
                "this token was used by another key; if that was not you, tell the coordinator "
                "now, who can withdraw it"
            )
        words = _words_between(self._fingerprint, self._coordinator, request)
        fresh = replace(invitation, identity=identity, tls_key=tls_key, words=words)
        self.invitations[request.name] = fresh
        self._keep()  # before the certificate leaves: the secret is used up
        reply = {"certificate": certificate.decode(), "coordinator": self._coordinator.hex()}
        return json.dumps(reply).encode()

    def _keep(self) -> None:
        content = {name: asdict(item) for name, item in self.invitations.items()}
        write_private(self._file, json.dumps(content, indent=1).encode())


@contextmanager
def listening(
    enrollment: Enrollment, host: str, port: int, names: list[str], callback: Callable[[str], None]
) -> Iterator[int]:
    """Admits sites until it is left, calling `callback` with each name; yields the port."""
    tls = enrollment.authority.server_context(names)
    tls.verify_mode = ssl.CERT_NONE  # a site gets its certificate here
    try:
        server = _Listener((host, port), _Handler)
    except OSError as error:
        raise EngineLost(
            f"nobody can call {host} port {port} ({error}); choose an address of this machine and "
            "a port that is free."
        ) from error
    server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.enrollment, server.callback = enrollment, callback
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.hang_up()
        server.server_close()
        thread.join()


class _Listener(LimitedServer):
    enrollment: Enrollment
    callback: Callable[[str], None]


class _Handler(BaseHTTPRequestHandler):
    server: _Listener
    protocol_version = "HTTP/1.0"
    timeout = 5.0

    def do_GET(self) -> None:
        if self.path != "/v1/authority":
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        certificate = self.server.enrollment.authority.certificate
        self._send(HTTPStatus.OK, certificate.public_bytes(serialization.Encoding.PEM))

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if self.path != "/v1/enroll" or not length.isdigit() or int(length) > _LONGEST:
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        try:
            name, reply = self.server.enrollment.admit(self.rfile.read(int(length)))
        except ParameterError as refusal:
            self._send(HTTPStatus.FORBIDDEN, str(refusal).encode())
            return
        self._send(HTTPStatus.OK, reply)
        self.server.callback(name)

    def _send(self, status: HTTPStatus, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed: a person waits at the terminal."""


# The site's end.
@dataclass(frozen=True)
class EnrollmentResult:
    """What a site received; stored once a person has compared the words."""

    token: SiteToken
    words: str
    files: Mapping[str, bytes]

    def keep(self, state: StateFolder) -> Path:
        place = state.tls / authority_id(self.files["authority.crt"])
        make_private(place)
        for name, content in self.files.items():
            write_private(place / name, content)
        Audit(state.audit_file).note("enrolled", what=f"at {self.token.url}: {self.words}")
        return place


def enroll(state: StateFolder, token: SiteToken) -> EnrollmentResult:
    """Requests a certificate with the token; nothing is stored before people compare the words."""
    if token.name != state.name:
        raise ParameterError(
            f"the token is for {token.name!r} and this site is {state.name!r}; use the one for "
            "this site."
        )
    key_file = state.tls / "site.key"
    if not key_file.exists():
        write_private(key_file, key_bytes(new_key()))
    request = Request.make(state.name, state.identity(), load_key(key_file))
    authority = _authority_of(token)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.minimum_version = ssl.TLSVersion.TLSv1_3
    tls.load_verify_locations(cadata=authority.decode())
    text = request.to_text()
    body = json.dumps({"request": text, "proof": token.proof(text)})
    certificate, coordinator = _reply(_call(token, tls, "POST", "/v1/enroll", body))
    key, fingerprint = load_key(key_file), token.authority.hex()
    own, signer = accept_certificate(certificate, fingerprint, key, token.name)
    words = _words_between(token.authority, coordinator, request)
    identity = json.dumps({"url": token.url, "key": coordinator.hex()}).encode()
    files = {"site.crt": own, "authority.crt": signer, "coordinator.json": identity}
    return EnrollmentResult(token, words, files)


def enrolled_at(state: StateFolder, coordinator: bytes) -> tuple[str | None, str | None]:
    """A coordinator's address and authority by its key, the newest; None without a token of it."""
    files = sorted(state.tls.glob("*/coordinator.json"), key=lambda file: file.stat().st_mtime_ns)
    for file in reversed(files):
        enrolled = json.loads(file.read_text(encoding="utf-8"))
        if enrolled["key"] == coordinator.hex():
            return enrolled["url"], file.parent.name
    return None, None


def _authority_of(token: SiteToken) -> bytes:
    """The authority's certificate, from whoever answers; its fingerprint must be the token's."""
    anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anybody.check_hostname = False
    anybody.verify_mode = ssl.CERT_NONE  # what it fetches is public, and is verified here
    content = _call(token, anybody, "GET", "/v1/authority")
    try:
        certificate = x509.load_pem_x509_certificate(content)
        fingerprint = bytes.fromhex(certificate_fingerprint(certificate).replace(":", ""))
    except ValueError:
        fingerprint = b""
    if not hmac.compare_digest(fingerprint, token.authority):
        raise ParameterError(
            f"{token.url} has another authority than the token names; nothing was sent. Ask the "
            "coordinator out of band (telephone): somebody may stand in between."
        )
    return certificate.public_bytes(serialization.Encoding.PEM)


def _call(token: SiteToken, tls: ssl.SSLContext, verb: str, path: str, body: str = "") -> bytes:
    host, port = address_of(token.url)
    line = http.client.HTTPSConnection(host, port, context=tls, timeout=_CALL_SECONDS)
    try:
        line.request(verb, path, body.encode() or None)
        response = line.getresponse()
        content = response.read(_LONGEST)
    except (OSError, http.client.HTTPException) as error:
        raise EngineLost(
            f"{token.url} cannot be reached ({error}); nothing was kept. Ask whether the "
            "coordinator's `hedgerow study invite` runs, and whether this machine may call there."
        ) from None
    finally:
        line.close()
    if response.status != HTTPStatus.OK:
        expiry = "" if token.expires > time.time() else ", which expired by the clock here"
        words = content.decode("utf-8", "replace")[:300]
        raise ParameterError(f"the coordinator refused the token{expiry}: {words}.")
    return content


def _reply(content: bytes) -> tuple[bytes, bytes]:
    """The certificate, and the coordinator's key."""
    try:
        reply: dict[str, str] = json.loads(content)
        return reply["certificate"].encode(), bytes.fromhex(reply["coordinator"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ParameterError("the coordinator's answer is not one to an enrollment.") from None
