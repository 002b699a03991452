"""What a browser is told: any origin may call. (SPEC.md, Browser callers)."""

from typing import Final

_EXPOSED: Final = (
    "X-Request-Id, Retry-After, Location, Content-Range, Content-Disposition, ETag, Idempotency-Replayed, "
    "RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset"
)
_METHODS: Final = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
_EVERY_ANSWER: Final = (
    "Vary: Origin\r\n"
    "Access-Control-Allow-Credentials: true\r\n"
    f"Access-Control-Expose-Headers: {_EXPOSED}\r\n"
    "Access-Control-Allow-Origin: "
)


def cors_lines(origin: str | None) -> str:
    """Return the header lines that the answer to a call from `origin` carries; none without an origin."""
    return f"{_EVERY_ANSWER}{origin}\r\n" if origin else ""


def preflight_headers(requested_method: str | None, requested_headers: str | None) -> list[tuple[str, str]]:
    """Return what a preflight's answer has beside `cors_lines`: every method and the requested headers."""
    known = not requested_method or requested_method in _METHODS.split(", ")
    headers = [
        ("Access-Control-Allow-Methods", _METHODS if known else f"{_METHODS}, {requested_method}"),
        ("Access-Control-Max-Age", "600"),
    ]
    if requested_headers:
        headers.append(("Access-Control-Allow-Headers", requested_headers))
    return headers
