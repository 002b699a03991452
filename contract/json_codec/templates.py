"""Path templates as `/api/v1/runs/{run_id}`, of routes and of links."""

import re
from typing import Final
from urllib.parse import quote

_NAME: Final = re.compile(r"\{([a-z0-9_]+)\}")
_UNRESERVED: Final = re.compile(r"[A-Za-z0-9_.~-]*")


def names_in(template: str) -> tuple[str, ...]:
    """Returns the names in braces, in order."""
    return tuple(_NAME.findall(template))


def path_segment(value: str) -> str:
    """Returns an id as it stands in a path, percent-encoded where it must be."""
    return value if _UNRESERVED.fullmatch(value) else quote(value, safe="")
