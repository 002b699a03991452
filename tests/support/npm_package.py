"""The TypeScript client as others install it: built and packed from a copy of its sources."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

SOURCE: Final = Path(__file__).parents[2] / "clients" / "typescript"
MADE: Final = ("build", "dist", "node_modules")
COMPILE: Final = ("--strict", "--target", "es2022", "--module", "nodenext")
"""Options of a strict program for Node.js."""


def node_options() -> dict[str, str]:
    """Returns variables for Node.js; Debian 12 has version 18, which keeps the web's `crypto` behind an option."""
    told = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    return {"NODE_OPTIONS": "--experimental-global-webcrypto"} if told.startswith("v18.") else {}


def npm(folder: Path, *arguments: str) -> str:
    """Runs npm in a folder; returns what it prints."""
    return run(folder, "npm", *arguments)


def run(folder: Path, *command: str | Path, environment: Mapping[str, str] | None = None) -> str:
    """Runs a command in a folder; returns what it prints."""
    variables = {**os.environ, **node_options(), **(environment or {})}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Package:
    """The package: the folder where it was built, and the archive that npm would publish."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("npm") is None:
            pytest.skip("needs npm")
        self.folder = folder / "package"
        shutil.copytree(SOURCE, self.folder, ignore=shutil.ignore_patterns(*MADE))
        npm(self.folder, "ci", "--silent")
        npm(self.folder, "run", "--silent", "build")
        npm(self.folder, "pack", "--silent", "--pack-destination", str(folder))
        [self.archive] = folder.glob("*.tgz")
        self.compiler = self.folder / "node_modules" / ".bin" / "tsc"

    def project(self, folder: Path) -> Path:
        """Makes a project in a folder that has this package, and Node's types; returns the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"type": "module", "private": true}')
        npm(folder, "install", "--silent", "--no-fund", "--no-audit", str(self.archive))
        return folder

    def compile(self, folder: Path, *options: str | Path) -> str:
        """Compiles the sources of a project for Node.js; returns what the compiler prints."""
        types = self.folder / "node_modules" / "@types"
        sources = sorted(path.name for path in folder.glob("*.ts"))
        return run(folder, self.compiler, *COMPILE, "--typeRoots", types, *options, *sources)
