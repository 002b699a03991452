"""Static files: style sheets, scripts and icons, each at an address that changes with its content."""

import re
from dataclasses import dataclass
from hashlib import sha256
from importlib import resources
from typing import Final

from aiohttp import web

from console.http.protection import IMMUTABLE

STATIC: Final = "/static/"
ROUTE: Final = STATIC + "{version}/{name}"

MOST_COUNTED: Final = 10
"""Largest number with an icon `count-<n>.svg`, which stands for this number or a larger one."""

# An import by a script, of a script that imports none.
_IMPORTED: Final = re.compile(rb'(?<= from )"\./([a-z]+\.js)";')

_MEDIA_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    media_type: str
    version: str


class StaticFiles:
    """The static files, read once at the start."""

    def __init__(self) -> None:
        self._files: dict[str, _File] = {}
        for found in resources.files("console").joinpath("static").iterdir():
            self._add(found.name, found.read_bytes())
        for name, file in list(self._files.items()):
            if name.endswith(".js"):
                self._add(name, _IMPORTED.sub(self._address, file.content))
        for count in range(MOST_COUNTED + 1):
            self._add(f"count-{count}.svg", _counting(self._files["icon.svg"].content, count))

    def _add(self, name: str, content: bytes) -> None:
        media_type = _MEDIA_TYPES[f".{name.rpartition('.')[2]}"]
        self._files[name] = _File(content, media_type, sha256(content).hexdigest()[:16])

    def _address(self, imported: re.Match[bytes]) -> bytes:
        return f'"{self.url_of(imported[1].decode())}";'.encode()

    def url_of(self, name: str) -> str:
        """Returns the path of a file."""
        return ROUTE.format(version=self._files[name].version, name=name)

    async def answer(self, request: web.Request) -> web.Response:
        """Serves a file; only its current version exists."""
        file = self._files.get(request.match_info["name"])
        if file is None or file.version != request.match_info["version"]:
            raise web.HTTPNotFound
        return web.Response(
            body=file.content, content_type=file.media_type, charset="utf-8", headers={"Cache-Control": IMMUTABLE}
        )


def _counting(icon: bytes, count: int) -> bytes:
    """Returns the icon with a number on it; without a number for 0."""
    if not count:
        return icon
    text = f"{MOST_COUNTED - 1}+" if count == MOST_COUNTED else str(count)
    badge = (
        '<circle cx="10.5" cy="10.5" r="5.5" fill="#a3231b"/><text x="10.5" y="13.2" fill="#ffffff" '
        f'text-anchor="middle" font-family="sans-serif" font-size="{6 if len(text) > 1 else 8}" '
        f'font-weight="700">{text}</text></svg>'
    )
    return icon.replace(b"</svg>", badge.encode())
