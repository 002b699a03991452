"""Style sheets, scripts and icons, each at an address that changes with its content."""

from dataclasses import dataclass
from hashlib import sha256
from importlib import resources
from typing import Final

from aiohttp import web

from edge.console.headers import IMMUTABLE

STATIC: Final = "/static/"
ROUTE: Final = STATIC + "{version}/{name}"

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
        for found in resources.files("edge.console").joinpath("static").iterdir():
            content = found.read_bytes()
            media_type = _MEDIA_TYPES[f".{found.name.rpartition('.')[2]}"]
            self._files[found.name] = _File(content, media_type, sha256(content).hexdigest()[:16])

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
