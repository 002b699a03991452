"""CORS headers: any origin may call (contract 6.2)."""

from typing import Final

_EXPOSED: Final = (
    "X-Request-Id, Retry-After, Location, Content-Range, Content-Disposition, ETag, Idempotency-Replayed, "
    "RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset"
)
_METHODS: Final = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
_COMMON_LINES: Final = (
    "Vary: Origin\r\n"
    "Access-Control-Allow-Credentials: true\r\n"
    f"Access-Control-Expose-Headers: {_EXPOSED}\r\n"
    "Access-Control-Allow-Origin: "
)


def cors_lines(origin: str | None) -> str:
    """Returns the header lines of an answer to a call from `origin`; none without an origin."""
    return f"{_COMMON_LINES}{origin}\r\n" if origin else ""


def preflight_headers(requested_method: str | None, requested_headers: str | None) -> list[tuple[str, str]]:
    """Returns the headers of a preflight's answer beside `cors_lines`: every method and the requested headers."""
    known = not requested_method or requested_method in _METHODS.split(", ")
    headers = [
        ("Access-Control-Allow-Methods", _METHODS if known else f"{_METHODS}, {requested_method}"),
        ("Access-Control-Max-Age", "600"),
    ]
    if requested_headers:
        headers.append(("Access-Control-Allow-Headers", requested_headers))
    return headers
