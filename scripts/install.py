"""Installs pinned requirements by uv, as pip is configured: `install.py [--into FOLDER] FILE...`.

A FILE is one of `requirements/`, of which every hash is checked, or a wheel. They go into the environment of the
running Python, or into the one in FOLDER, which is made if it is missing. If uv cannot install them, pip does. Needs
the standard library and pip alone: the pinned uv is installed first.
"""

import argparse
import ast
import os
import subprocess
import sys
import venv
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
UV_REQUIREMENTS: Final = ROOT / "requirements" / "install.txt"
PIP: Final = (sys.executable, "-m", "pip", "--disable-pip-version-check")

# Options of pip, and the equivalent variables of uv, which does not read pip's configuration.
_VARIABLES: Final = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "no-index": "UV_NO_INDEX",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "proxy": "ALL_PROXY",
    "timeout": "UV_HTTP_TIMEOUT",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "keyring-provider": "UV_KEYRING_PROVIDER",
}
# uv's lists are separated by spaces like pip's, except in this variable.
_SEPARATED_BY_COMMAS: Final = "UV_FIND_LINKS"
# The sections that `pip install` reads, the strongest last.
_SECTIONS: Final = ("global", "install", ":env:")


def pip_settings() -> dict[str, str]:
    """Returns pip's configuration, from files and variables."""
    listed = subprocess.run([*PIP, "config", "list"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return read_settings(listed)


def read_settings(listed: str) -> dict[str, str]:
    """Returns the options of `pip install` in the output of `pip config list`."""
    given: dict[str, str] = {}
    lines = [line.partition("=") for line in listed.splitlines()]
    for wanted in _SECTIONS:
        for name, _, value in lines:
            section, _, option = name.partition(".")
            if section == wanted:
                given[option] = str(ast.literal_eval(value)).strip()
    return given


def uv_variables(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns variables that make uv install as pip would with these options."""
    # pip searches all its indexes, so it finds the release with the pinned hash in any of them.
    variables = {"UV_INDEX_STRATEGY": "unsafe-best-match", "UV_SYSTEM_CERTS": "true"}
    for option in _VARIABLES.keys() & settings.keys():
        variable, value = _VARIABLES[option], settings[option]
        variables[variable] = (",".join if variable == _SEPARATED_BY_COMMAS else " ".join)(value.split())
    if variables.get("UV_KEYRING_PROVIDER") not in {"subprocess", "disabled"}:
        variables.pop("UV_KEYRING_PROVIDER", None)
    return {name: value for name, value in variables.items() if value}


def pinned_uv_is_installed(requirements: str) -> bool:
    """Returns whether the environment of this Python has the release of uv that the requirements pin."""
    try:
        return f"uv=={version('uv')} " in requirements
    except PackageNotFoundError:
        return False


def _pip_options(file: Path) -> list[str]:
    if file.suffix == ".whl":
        return ["--no-deps", "--force-reinstall", str(file)]
    return ["--no-deps", "--require-hashes", "-r", str(file)]


def _uv_options(file: Path) -> list[str]:
    if file.suffix == ".whl":
        return ["--no-deps", "--no-index", "--reinstall", str(file)]
    return ["--no-deps", "--require-hashes", "-r", str(file)]


def install(file: Path, python: Path, variables: Mapping[str, str]) -> None:
    """Installs a file into the environment of `python`.

    Raises:
        CalledProcessError: neither uv nor pip could.
    """
    uv = Path(sys.executable).with_name("uv")
    command: list[str | Path] = [uv, "pip", "install", "--quiet", "--python", python, *_uv_options(file)]
    if subprocess.run(command, env=variables, check=False).returncode == 0:
        return
    sys.stderr.write(f"uv could not install {file}; trying pip\n")
    subprocess.run([*PIP, "--python", python, "install", "--quiet", *_pip_options(file)], check=True)


def main() -> None:
    """Installs the files that are named on the command line."""
    parser = argparse.ArgumentParser(description="Installs pinned requirements and wheels by uv, as pip is configured.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="environment, made without pip if it is missing")
    arguments = parser.parse_args()
    python = Path(sys.executable)
    if arguments.into is not None:
        python = arguments.into / "bin" / "python"
        if not python.exists():
            venv.create(arguments.into, symlinks=True)
    try:
        if not pinned_uv_is_installed(UV_REQUIREMENTS.read_text()):
            subprocess.run([*PIP, "install", "--quiet", *_pip_options(UV_REQUIREMENTS)], check=True)
        # Variables set for uv override those derived from pip's.
        variables = {**uv_variables(pip_settings()), **os.environ}
        for file in arguments.files:
            install(file, python, variables)
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)


if __name__ == "__main__":
    main()
