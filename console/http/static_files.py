"""Static files: style sheets, scripts, icons and a schema, each at an address that changes with its content."""

import gzip
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

from aiohttp import web

from console.http.protection import IMMUTABLE

STATIC: Final = "/static/"
ROUTE: Final = STATIC + "{version}/{name}"

MOST_COUNTED: Final = 10
"""Largest number with an icon `count-<n>.svg`, which stands for this number or a larger one."""

# An import by a script, of a script that imports none.
_IMPORTED: Final = re.compile(rb'(?<= from )"\./([a-z]+\.js)";')

BUILT: Final = "built"
"""Folder of the files that `make editor` makes; without them pages do with less.

They import each other by relative addresses, and so have one version.
"""

_MEDIA_TYPES: Final = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
_LEAST_COMPRESSED: Final = 1_024
_BROTLI: Final = ".br"
_CODING: Final = re.compile(r"([a-z]+)(?: *; *q=(?:1|0?\.0{0,2}[1-9])[0-9.]{0,4})?")


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    compressed: Mapping[str, bytes]
    """Compressed content by coding, the smallest first; none where the content is small."""
    media_type: str
    version: str


class StaticFiles:
    """The static files, read once at the start."""

    def __init__(self) -> None:
        self._files: dict[str, _File] = {}
        static = resources.files("console").joinpath("static")
        built = static.joinpath(BUILT)
        for name, content in _files_in(static).items():
            self._add(name, content)
        for name, file in list(self._files.items()):
            if name.endswith(".js"):
                self._add(name, _IMPORTED.sub(self._address, file.content))
        bundled = _files_in(built) if built.is_dir() else {}
        version = _version_of(b"".join(bundled[name] for name in sorted(bundled)))
        for name, content in bundled.items():
            if not name.endswith(_BROTLI):
                self._add(name, content, bundled.get(name + _BROTLI), version)
        for count in range(MOST_COUNTED + 1):
            self._add(f"count-{count}.svg", _counting(self._files["icon.svg"].content, count))

    def _add(self, name: str, content: bytes, brotli: bytes | None = None, version: str = "") -> None:
        media_type = _MEDIA_TYPES[f".{name.rpartition('.')[2]}"]
        compressed = {} if brotli is None else {"br": brotli}
        if len(content) >= _LEAST_COMPRESSED:
            compressed["gzip"] = gzip.compress(content, mtime=0)
        self._files[name] = _File(content, compressed, media_type, version or _version_of(content))

    def has(self, name: str) -> bool:
        """Returns whether there is a file of a name."""
        return name in self._files

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
        headers = {"Cache-Control": IMMUTABLE, "Vary": "Accept-Encoding"}
        content = file.content
        taken = _codings(request.headers.get("Accept-Encoding", ""))
        coding = next((each for each in file.compressed if each in taken), None)
        if coding is not None:
            content, headers["Content-Encoding"] = file.compressed[coding], coding
        return web.Response(body=content, content_type=file.media_type, charset="utf-8", headers=headers)


def _files_in(folder: Traversable) -> Mapping[str, bytes]:
    """Returns the content of the files in a folder by their name."""
    return {found.name: found.read_bytes() for found in folder.iterdir() if found.is_file()}


def _version_of(content: bytes) -> str:
    return sha256(content).hexdigest()[:16]


def _codings(accepted: str) -> set[str]:
    """Returns the codings that a header `Accept-Encoding` names, other than to refuse them."""
    named = (_CODING.fullmatch(coding.strip()) for coding in accepted.lower().split(","))
    return {coding[1] for coding in named if coding is not None}


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
