"""Small roots for tests, made of files of this machine, and image archives of them."""

import gzip
import hashlib
import io
import json
import os
import platform
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from backend.isolation.sandbox.host_libraries import host_libraries

PROGRAM = "only-in-the-root"
"""A copy of `env`, which no machine has under this name."""
LIBRARY = "libonlyintheroot.so.1"
"""A copy of a library, which no machine has under this name."""
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
Entry = tuple[tarfile.TarInfo, bytes]


def make_root(folder: Path) -> Path:
    """Makes a root as debootstrap does: a shell, a program, the libraries of both, and merged folders."""
    own = host_libraries()
    for alias in ("bin", "lib", "lib64"):
        (folder / "usr" / alias).mkdir(parents=True, exist_ok=True)
        (folder / alias).symlink_to(f"usr/{alias}")
    for library in (own.loader, own.libraries["libc.so.6"], own.libraries["libm.so.6"]):
        path = str(library).removeprefix("/usr")
        _copy(library, folder / "usr" / path.removeprefix("/"))
    beside = folder / "usr" / str(own.libraries["libc.so.6"].parent).removeprefix("/usr").removeprefix("/")
    _copy(own.libraries["libm.so.6"], beside / LIBRARY)
    _copy(Path("/bin/sh"), folder / "usr" / "bin" / "sh")
    _copy(own.programs["env"], folder / "usr" / "bin" / PROGRAM)
    fonts = folder / "etc" / "fonts"
    (fonts / "conf.d").mkdir(parents=True)
    (fonts / "fonts.conf").write_text('<?xml version="1.0"?><fontconfig><dir>/usr/share/fonts</dir></fontconfig>')
    (folder / "etc" / "shadow").write_text("secret")
    return folder


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(os.path.realpath(source), target)


def tar(entries: Sequence[Entry]) -> bytes:
    """Returns a tar archive of the entries, in their order."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for member, content in entries:
            archive.addfile(member, io.BytesIO(content))
    return written.getvalue()


def entry(name: str, content: bytes = b"", **fields: Any) -> Entry:
    """Returns an entry of a tar archive, by default a file."""
    member = tarfile.TarInfo(name)
    member.size = len(content)
    for field, value in fields.items():
        setattr(member, field, value)
    return member, content


def folder_entry(name: str) -> Entry:
    """Returns an entry of a folder."""
    return entry(name, type=tarfile.DIRTYPE, mode=0o755)


def tar_of(folder: Path) -> bytes:
    """Returns a tar archive of a folder."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        archive.add(folder, arcname=".")
    return written.getvalue()


def sha256(content: bytes) -> str:
    """Returns a digest as images have it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def write_image(path: Path, *layers: bytes, replaced: Mapping[str, bytes] | None = None, **config: Any) -> Path:
    """Writes an OCI image archive of tar layers; `replaced` are blobs by digest with other content."""
    packed = [gzip.compress(layer, 1, mtime=0) for layer in layers]
    described = {
        "architecture": ARCHITECTURE,
        "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": [sha256(layer) for layer in layers]},
        **config,
    }
    settings = json.dumps(described).encode()
    manifest = json.dumps(
        {"config": {"digest": sha256(settings)}, "layers": [{"digest": sha256(layer)} for layer in packed]}
    ).encode()
    blobs = {sha256(each): each for each in (settings, manifest, *packed)} | dict(replaced or {})
    index = json.dumps({"manifests": [{"digest": sha256(manifest)}]}).encode()
    files = {f"blobs/sha256/{digest.removeprefix('sha256:')}": content for digest, content in blobs.items()}
    path.write_bytes(tar([entry(name, content) for name, content in {**files, "index.json": index}.items()]))
    return path


def write_docker_image(path: Path, *layers: bytes, **config: Any) -> Path:
    """Writes an archive as earlier releases of `docker save` write it."""
    described = {
        "architecture": ARCHITECTURE,
        "os": "linux",
        "rootfs": {"diff_ids": list(map(sha256, layers))},
        **config,
    }
    settings = json.dumps(described).encode()
    name = f"{sha256(settings).removeprefix('sha256:')}.json"
    places = [f"{number}/layer.tar" for number in range(len(layers))]
    manifest = json.dumps([{"Config": name, "Layers": places}]).encode()
    files = {name: settings, "manifest.json": manifest, **dict(zip(places, layers, strict=True))}
    path.write_bytes(tar([entry(each, content) for each, content in files.items()]))
    return path
