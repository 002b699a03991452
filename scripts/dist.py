"""Builds the files of a release: sdists, wheels made from them, a list of components, and digests.

`dist.py [FOLDER]`, by default dist/, which is emptied first; another folder must be empty or new. The list of
components (CycloneDX) is of an environment like that of the container image: the wheel of the service, and all that
`requirements/image.txt` pins.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PROJECTS: Final = (ROOT, ROOT / "redaction", ROOT / "clients" / "python", ROOT / "clients" / "protos")


def build(project: Path, target: Path) -> Path:
    """Builds the sdist of a project, and the wheel from the sdist alone; returns the wheel."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _hatchling(project, "sdist", folder)
        [sources] = folder.glob("*.tar.gz")
        with tarfile.open(sources) as archive:
            archive.extractall(folder / "sources", filter="data")
        [unpacked] = (folder / "sources").iterdir()
        _hatchling(unpacked, "wheel", folder)
        [wheel] = folder.glob("*.whl")
        return [Path(shutil.move(made, target / made.name)) for made in (sources, wheel)][-1]


def list_components(wheel: Path, target: Path) -> None:
    """Writes the components of an installation of the wheel with the image's requirements, as CycloneDX."""
    with tempfile.TemporaryDirectory() as name:
        environment = Path(name) / "environment"
        requirements = ROOT / "requirements" / "image.txt"
        _run(sys.executable, ROOT / "scripts" / "install.py", "--into", environment, requirements, wheel)
        python = environment / "bin" / "python"
        form = ("--output-reproducible", "--output-format", "JSON", "--output-file", target)
        cyclonedx = Path(sys.executable).with_name("cyclonedx-py")
        _run(cyclonedx, "environment", "--pyproject", ROOT / "pyproject.toml", *form, python)


def write_digests(folder: Path) -> None:
    """Writes the SHA-256 of every file, in the form that `sha256sum --check` reads."""
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(folder.iterdir())]
    (folder / "SHA256SUMS").write_text("".join(lines))


def main() -> None:
    """Builds all files of a release."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist"
    if folder.resolve() == ROOT / "dist":
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        sys.exit(f"{folder} is not empty: name a new folder")
    service, *_ = (build(project, folder) for project in PROJECTS)
    list_components(service, folder / f"{service.name.removesuffix('-py3-none-any.whl')}.cdx.json")
    write_digests(folder)
    print(*sorted(path.name for path in folder.iterdir()), sep="\n")


def _hatchling(project: Path, kind: str, target: Path) -> None:
    _run(sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", target, cwd=project)


def _run(*command: str | Path, cwd: Path = ROOT) -> None:
    # Equal sources give equal files.
    variables = {"SOURCE_DATE_EPOCH": _commit_time(), **os.environ}
    done = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed:\n{done.stdout}{done.stderr}")


def _commit_time() -> str:
    log = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False)
    return log.stdout.strip() or "1700000000"


if __name__ == "__main__":
    main()
