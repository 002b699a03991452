"""Makes small wheels, for tests that need packages and no index."""

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

from backend.isolation.sandbox import interpreter
from backend.resources.environments.store import PackageStore
from backend.settings import PackageSettings


def package_settings(data: Path) -> PackageSettings:
    """Returns settings that know no index, and take wheels from the folder `wheels` of the data folder."""
    wheels = data / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    return PackageSettings(index_url=None, wheels=wheels, folder=data / "packages")


def package_store(data: Path) -> PackageStore:
    """Returns a store of these settings."""
    settings = package_settings(data)
    return PackageStore(settings, data / "packages", interpreter.executable)


def make_wheel(
    folder: Path,
    name: str,
    version: str = "1.0",
    *,
    files: Mapping[str, str] | None = None,
    requires: tuple[str, ...] = (),
    tag: str = "py3-none-any",
) -> Path:
    """Writes a wheel with these files, by default a module of the package's name with its version; returns its path."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    content = dict(files or {f"{module}.py": f"VERSION = {version!r}\n"})
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    content[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"
    content[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n"
    record = "".join(f"{path},{_hash(text)},{len(text.encode())}\n" for path, text in content.items())
    content[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"{module}-{version}-{tag}.whl"
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in content.items():
            # Without the time of now, so that the same content gives the same bytes.
            archive.writestr(zipfile.ZipInfo(path), text)
    return made


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"
