"""Security and caching headers of every response."""

from collections.abc import Mapping
from typing import Final

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


def common_headers(*, https: bool) -> Mapping[str, str]:
    """Returns the headers of every response."""
    return {**_ALWAYS, "Strict-Transport-Security": "max-age=31536000"} if https else _ALWAYS
