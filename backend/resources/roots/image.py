"""Reads the layers of an image archive, as `docker save` and `skopeo copy … oci-archive:` write it, into a tree.

Every blob is compared with its digest before it is parsed.
"""

import gzip
import hashlib
import io
import json
import platform
import posixpath
import re
import shutil
import subprocess
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from backend.resources.roots.tree import RootError, RootTree

_INDEX: Final = "index.json"
_MANIFEST: Final = "manifest.json"
_LARGEST_JSON: Final = 4 * 2**20
LARGEST_READ: Final = 16 * 2**20
_MOST_ENTRIES: Final = 1_000_000
_MOST_FILES: Final = 10_000
"""Most entries of the archive itself, whose headers are kept in memory."""
_MOST_LAYERS: Final = 200
_DEEPEST_INDEX: Final = 3
_LATEST: Final = 2**33
_LARGEST_LAYER: Final = 32 * 2**30
CHUNK: Final = 2**20
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_NAMED_BY_DIGEST: Final = re.compile(r"(?:blobs/sha256/)?([0-9a-f]{64})(?:\.json)?")
_WHITEOUT: Final = ".wh."
_OPAQUE: Final = ".wh..wh..opq"
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


class _BoundedFile(io.FileIO):
    """A file that refuses to be read at once as far as a hostile header may ask."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Reads up to `size` bytes; raises RootError for too many."""
        if size is None or not 0 <= size <= LARGEST_READ:
            raise RootError("it has a header that is too long")
        return super().read(size)


def unpack_image(archive: Path, tree: RootTree, scratch: Path) -> None:
    """Writes the layers of an image for this machine into a tree; `scratch` is a folder for one layer at a time.

    Raises:
        RootError: the archive is no image, or not for this machine, or differs from its digests.
        OSError: the archive cannot be read, or the disk is full.
    """
    try:
        with _BoundedFile(archive) as file, tarfile.open(fileobj=file, mode="r:") as outer:
            blobs = _Blobs(outer)
            for layer in _layers(blobs):
                _unpack_layer(blobs, layer, tree, scratch)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise RootError(f"it is not an image archive, or is damaged: {error}") from error
    except (ArithmeticError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise RootError("it is not an image archive: its description is not as it must be") from error


class _Layer(NamedTuple):
    """A layer: its file in the archive, and the digests of the file, if the archive has one, and of its content."""

    file: str
    packed: str | None
    content: str


class _Blobs:
    """Files of an image archive by name, where a link stands for the file that it names."""

    def __init__(self, outer: tarfile.TarFile) -> None:
        self._outer = outer
        self._members = {_normal(member.name): member for member in _entries(outer, _MOST_FILES)}

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def open(self, name: str) -> IO[bytes]:
        """Opens a file. Raises RootError if there is none."""
        member = self._members.get(name)
        if member is not None and (member.issym() or member.islnk()):
            # Some releases of `docker save` name an equal layer twice.
            base = posixpath.dirname(name) if member.issym() else ""
            member = self._members.get(_normal(posixpath.join(base, member.linkname)))
        opened = self._outer.extractfile(member) if member is not None and member.isreg() else None
        if opened is None:
            raise RootError(f"it is not an image archive: it has no file {name[:200]!r}")
        return opened

    def json(self, name: str, digest: str | None = None) -> Any:
        """Returns a file as JSON, compared with its digest if one is given."""
        content = self.open(name).read(_LARGEST_JSON)
        found = f"sha256:{hashlib.sha256(content).hexdigest()}"
        if digest is not None and found != digest:
            raise RootError(f"its file {name} has the digest {found}, and must have {digest}")
        return json.loads(content)

    def blob(self, digest: str) -> Any:
        """Returns the JSON with a digest."""
        return self.json(_file_of(digest), digest)


def _layers(blobs: _Blobs) -> list[_Layer]:
    """Returns the layers of the archive's image, from the lowest."""
    if _INDEX in blobs:
        manifest = _manifest(blobs, blobs.json(_INDEX), 0)
        config = blobs.blob(manifest["config"]["digest"])
        files = [(_file_of(layer["digest"]), layer["digest"]) for layer in manifest["layers"]]
    elif _MANIFEST in blobs:
        images = blobs.json(_MANIFEST)
        if len(images) != 1:
            raise RootError(f"it must have one image, and has {len(images):,}")
        named = _NAMED_BY_DIGEST.fullmatch(images[0]["Config"])
        config = blobs.json(images[0]["Config"], named and f"sha256:{named[1]}")
        files = [(_normal(name), None) for name in images[0]["Layers"]]
    else:
        raise RootError("it is not an image archive: it has neither index.json nor manifest.json")
    if config.get("os", "linux") != "linux" or config["architecture"] != _architecture():
        raise RootError(
            f"it is for {config.get('os')}/{config['architecture']}, and this machine is linux/{_architecture()}"
        )
    contents = [_checked(digest) for digest in config["rootfs"]["diff_ids"]]
    if not 1 <= len(files) <= _MOST_LAYERS or len(files) != len(contents):
        raise RootError(f"it must have 1 to {_MOST_LAYERS} layers, each with a digest of its content")
    return [_Layer(file, packed, content) for (file, packed), content in zip(files, contents, strict=True)]


def _manifest(blobs: _Blobs, index: Any, depth: int) -> Any:
    """Returns the manifest of an index's image for this machine."""
    wanted = [
        entry
        for entry in index["manifests"]
        if (entry.get("platform") or {}).get("architecture", _architecture()) == _architecture()
    ]
    if len(wanted) != 1 or depth > _DEEPEST_INDEX:
        raise RootError(f"it must have one image for linux/{_architecture()}, and has {len(wanted):,}")
    found = blobs.blob(wanted[0]["digest"])
    return _manifest(blobs, found, depth + 1) if "manifests" in found else found


def _unpack_layer(blobs: _Blobs, layer: _Layer, tree: RootTree, scratch: Path) -> None:
    packed, content = scratch / "packed", scratch / "content"
    with blobs.open(layer.file) as source:
        found = _copied(source, packed)
    if layer.packed is not None and found != layer.packed:
        raise RootError(f"its layer {layer.file} has the digest {found}, and must have {layer.packed}")
    with _decompressed(packed) as opened:
        found = _copied(opened, content)
    if found != layer.content:
        raise RootError(f"the content of its layer {layer.file} has the digest {found}, and must have {layer.content}")
    packed.unlink()
    # Twice, because what a layer hides is always of the layers below it.
    for add in (_hide_entries, _add_entries):
        with _BoundedFile(content) as file, tarfile.open(fileobj=file, mode="r:") as archive:
            add(archive, tree)
    content.unlink()


def _hide_entries(archive: tarfile.TarFile, tree: RootTree) -> None:
    for member in _entries(archive):
        parent, name = posixpath.split(member.name.rstrip("/"))
        if name == _OPAQUE:
            tree.hide(parent, itself=False)
        elif name.startswith(_WHITEOUT) and name != _WHITEOUT:
            tree.hide(f"{parent}/{name.removeprefix(_WHITEOUT)}", itself=True)


def _add_entries(archive: tarfile.TarFile, tree: RootTree) -> None:
    for member in _entries(archive):
        path = tree.kept_path(member.name)
        if path is None or posixpath.basename(path).startswith(_WHITEOUT):
            continue
        modified = float(max(0, min(int(member.mtime), _LATEST)))
        if member.isdir():
            tree.add_folder(path, modified)
        elif member.issym():
            tree.add_link(path, member.linkname)
        elif member.islnk():
            other = tree.kept_path(member.linkname)
            if other is None:
                raise RootError(f"it has a link to a file that is not kept: {path}")
            tree.add_name(path, other)
        elif member.isreg():
            content = archive.extractfile(member)
            assert content is not None, "it is a file"
            tree.add_file(path, content, program=bool(member.mode & 0o111), modified=modified)


def _entries(archive: tarfile.TarFile, most: int = _MOST_ENTRIES) -> Iterator[tarfile.TarInfo]:
    count = 0
    while (member := archive.next()) is not None:
        # The archive would keep every header in memory.
        archive.members = []  # type: ignore[attr-defined]  # of the class, undocumented
        count += 1
        if count > most:
            raise RootError(f"it has more than {most:,} entries")
        yield member


def _copied(source: IO[bytes], target: Path) -> str:
    """Copies bytes into a file, and returns their digest."""
    found, size = hashlib.sha256(), 0
    with target.open("wb") as file:
        while chunk := source.read(CHUNK):
            size += len(chunk)
            if size > _LARGEST_LAYER:
                raise RootError(f"it has a layer of more than {_LARGEST_LAYER // 2**20:,} MB")
            found.update(chunk)
            file.write(chunk)
    return f"sha256:{found.hexdigest()}"


@contextmanager
def _decompressed(packed: Path) -> Iterator[IO[bytes]]:
    with packed.open("rb") as file:
        start = file.read(4)
        file.seek(0)
        if start.startswith(_GZIP):
            with gzip.open(file) as opened:
                yield opened  # type: ignore[misc]  # a reader of bytes
        elif start == _ZSTD:
            with _zstd(packed) as opened:
                yield opened
        else:
            yield file


@contextmanager
def _zstd(packed: Path) -> Iterator[IO[bytes]]:
    program = shutil.which("zstd")
    if program is None:
        raise RootError("its layers are compressed by zstd: install the program zstd, or write it with gzip")
    with subprocess.Popen(
        [program, "-dcq", "--", packed], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None, "it is a pipe"
        try:
            yield process.stdout
        finally:
            process.stdout.close()
            process.kill()


def _architecture() -> str:
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)


def _checked(digest: object) -> str:
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise RootError(f"it has a digest that is not allowed: {str(digest)[:100]!r}")
    return digest


def _file_of(digest: object) -> str:
    return f"blobs/sha256/{_checked(digest).removeprefix('sha256:')}"


def _normal(name: str) -> str:
    return posixpath.normpath(name).lstrip("/")
