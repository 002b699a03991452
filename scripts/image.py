"""Builds the container image with buildah, without a daemon and without a registry of images.

The base that the Dockerfile names is made by debootstrap, under its name, in a separate store, from the base's Debian
release and minor version of Python. Needs root, `buildah` and `debootstrap`. Python packages come from pip's configured
indexes.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from scripts.install import ROOT, pip_settings

DOCKERFILE: Final = ROOT / "deploy" / "container" / "Dockerfile"
NAME: Final = "localhost/workflow-api"
# Content of the Dockerfile's base, as packages of Debian.
_PACKAGES: Final = ("ca-certificates", "python3", "python3-venv", "python-is-python3")
_CERTIFICATES: Final = Path("/etc/ssl/certs")
# Options of pip that apply inside the build too.
_PASSED_ON: Final = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout")


class Images:
    """Images in a folder, which only this process uses; a build needs about 2 GB there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._store = ("--root", folder / "store", "--runroot", folder / "run", "--storage-driver", "vfs")

    def make_base(self) -> None:
        """Makes the image that the Dockerfile begins with."""
        named = re.search(r"^FROM (\S+:\S+-slim-(\w+)) AS", DOCKERFILE.read_text(), re.MULTILINE)
        assert named is not None, "the Dockerfile begins with a slim image of Python"
        root = self._folder / "base"
        _print_step(f"Make the base by debootstrap: Debian {named[2]}")
        _run_visibly("debootstrap", "--variant=minbase", f"--include={','.join(_PACKAGES)}", named[2], root)
        _print_step("Store the base")
        container = self.buildah("from", "scratch")
        self.buildah("add", container, root, "/")
        self.buildah("commit", "--rm", container, f"docker.io/library/{named[1]}")
        shutil.rmtree(root)

    def build(self, *arguments: str) -> str:
        """Builds the image; `arguments` are build arguments such as `REQUIREMENTS=slim`. Returns its id."""
        settings = self._folder / "pip.conf"
        settings.write_text(_pip_configuration())
        # Mounted for the build alone, so that neither is in the image.
        mounted = [f"{settings}:/etc/pip.conf:ro", f"{_CERTIFICATES}:{_CERTIFICATES}:ro"]
        made = self._folder / "image"
        _print_step(f"Build the image by the steps of {DOCKERFILE.relative_to(ROOT)}")
        _run_visibly(
            *self.command("build", "--iidfile", made, "--pull-never", "--isolation", "chroot", "--network", "host"),
            *("--format", "docker"),
            *(option for volume in mounted for option in ("--volume", volume)),
            *(option for argument in arguments for option in ("--build-arg", argument)),
            *("--file", DOCKERFILE, "--tag", NAME, ROOT),
        )
        return made.read_text(encoding="utf-8").removeprefix("sha256:").strip()

    def write(self, image: str, archive: Path) -> None:
        """Writes an image as an archive that `docker load` and `podman load` read."""
        _print_step(f"Write {archive}")
        _run_visibly(*self.command("push", image, f"docker-archive:{archive.resolve()}:{NAME}"))

    def buildah(self, command: str, *arguments: str | Path) -> str:
        """Runs a command of buildah in this store, and returns its output."""
        return _run(*self.command(command, *arguments))

    def command(self, command: str, *arguments: str | Path) -> list[str | Path]:
        """Returns a command line of buildah for this store."""
        return ["buildah", *self._store, command, *arguments]


def _pip_configuration() -> str:
    lines = ["[global]", f"cert = {_CERTIFICATES / 'ca-certificates.crt'}"]
    for option, value in pip_settings().items():
        # Files of this machine do not exist in the build.
        indexes = " ".join(part for part in value.split() if not part.startswith("file:"))
        if option in _PASSED_ON and indexes:
            lines.append(f"{option} = {indexes}")
    return "\n".join(lines) + "\n"


def _run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout.strip()


def _print_step(step: str) -> None:
    print(f"--- {step}", flush=True)


def _run_visibly(*command: str | Path) -> None:
    """Runs a command that takes minutes, with its output on the terminal."""
    code = subprocess.run(command, check=False).returncode
    if code != 0:
        sys.exit(f"{command[0]} failed with exit code {code}.")


def main() -> None:
    """Builds the image, and writes it as an archive."""
    parser = argparse.ArgumentParser(description="Builds the container image on a base made by debootstrap.")
    parser.add_argument("archive", type=Path, metavar="ARCHIVE", help="file to write, ending with .tar")
    parser.add_argument("--build-arg", action="append", default=[], metavar="NAME=VALUE", help="as REQUIREMENTS=slim")
    arguments = parser.parse_args()
    missing = [program for program in ("buildah", "debootstrap") if shutil.which(program) is None]
    if missing:
        sys.exit(f"{' and '.join(missing)} missing: apt-get install {' '.join(missing)}")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        images = Images(Path(name))
        images.make_base()
        image = images.build(*arguments.build_arg)
        images.write(image, arguments.archive)


if __name__ == "__main__":
    main()
