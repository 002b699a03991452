"""Protection of pages against other sites: host check, form tokens, response headers, and the browser's address."""

import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from ipaddress import ip_address
from secrets import token_hex
from typing import Final

from aiohttp import web

from console.settings import ConsoleSettings
from contract.addresses import client_address_header, plain_address

_HOST: Final = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<name>[^:\[\]]+?)\.?)(?::[0-9]{1,5})?")
_REFUSED: Final = (
    "This console is not served under that name. Its operator names the hosts that browsers reach it by in the setting "
    "console.hosts; without it, ask for the very address that it listens on."
)

_FORM: Final = b"workflow-api console form"
_NOTICE: Final = b"workflow-api console notice"
_MAX_NOTICE_CHARS: Final = 500
_PAGE_CHARS: Final = 16
_SIGNATURE_CHARS: Final = 48

_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_ALWAYS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=(), clipboard-write=(self)",
    "Server": "workflow-api",
}

NO_STORE: Final = "no-store"
"""Cache-Control of pages, which belong to one visitor."""

IMMUTABLE: Final = "public, max-age=31536000, immutable"
"""Cache-Control of files whose address changes with their content."""


def check_host(request: web.Request, settings: ConsoleSettings) -> None:
    """Refuses a request for a host that is not configured; by default the host must be the address that it came to.

    Raises:
        HTTPMisdirectedRequest: the host is missing, malformed or not served here.
    """
    given = request.headers.getall("Host", [])
    found = _HOST.fullmatch(given[0]) if len(given) == 1 else None
    host = (found["ipv6"] or found["name"]).lower() if found else ""
    if not host or not (host in settings.hosts if settings.hosts else _is_own_address(host, request, settings)):
        raise web.HTTPMisdirectedRequest(text=_REFUSED)


def source_of(request: web.Request, client_address: str) -> str:
    """Returns the browser's address by the setting `client_address`; empty where it is unknown."""
    name = client_address_header(client_address)
    if name is not None:
        values = request.headers.getall(name, [])
        return plain_address(values[0].strip()) if len(values) == 1 else ""
    if client_address == "peer":
        return plain_address(request.remote or "")
    # The load balancer appends the address that it saw; entries before that come from the browser.
    forwarded = request.headers.getall("X-Forwarded-For", [""])
    return plain_address(forwarded[-1].rpartition(",")[2].strip())


def form_token(secret: str) -> str:
    """Returns a token for the forms of one page of the visitor; every page gets a different token."""
    return _form_token(secret, token_hex(_PAGE_CHARS // 2))


def is_form_token(secret: str, token: str) -> bool:
    """Returns whether a token was made for a page of this visitor."""
    return hmac.compare_digest(_form_token(secret, token[:_PAGE_CHARS]).encode(), token.encode())


def seal_notice(secret: str, notice: str) -> str:
    """Returns a cookie's value with a notice, signed for this visitor."""
    text = notice[:_MAX_NOTICE_CHARS].encode()
    return f"{urlsafe_b64encode(text).decode()}.{_notice_signature(secret, text)}"


def open_notice(secret: str, sealed: str) -> str:
    """Returns the notice of a cookie's value; empty where its signature is not valid for this visitor."""
    encoded, _, signature = sealed.partition(".")
    try:
        text = urlsafe_b64decode(encoded)
        return (
            text.decode() if hmac.compare_digest(_notice_signature(secret, text).encode(), signature.encode()) else ""
        )
    except ValueError:
        return ""


def common_headers(*, https: bool) -> Mapping[str, str]:
    """Returns the headers of every response."""
    return {**_ALWAYS, "Strict-Transport-Security": "max-age=31536000"} if https else _ALWAYS


def _is_own_address(host: str, request: web.Request, settings: ConsoleSettings) -> bool:
    local = request.get_extra_info("sockname")
    own_address = plain_address(local[0]) if isinstance(local, tuple) else ""
    if plain_address(host):
        return plain_address(host) == own_address
    if host == "localhost":
        return bool(own_address) and ip_address(own_address).is_loopback
    return host == settings.host.lower()


def _form_token(secret: str, page: str) -> str:
    return page + hmac.new(secret.encode(), _FORM + page.encode(), sha256).hexdigest()[:_SIGNATURE_CHARS]


def _notice_signature(secret: str, text: bytes) -> str:
    return hmac.new(secret.encode(), _NOTICE + text, sha256).hexdigest()
