"""Releases the checkout: `release.py` prints its steps, `release.py --publish` takes them.

A release is a tag, wheels and sdists, a container image, and its notes in CHANGELOG.md. It requires one version
everywhere, a dated entry of the changelog, a clean checkout and a new tag.
"""

import argparse
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
DIST: Final = ROOT / "dist"
NOTES: Final = DIST / "NOTES.md"

# Files that name the release, with the pattern of the name.
_NAMED: Final = {
    "clients/protos/pyproject.toml": r'^version = "(.+)"$',
    "clients/python/workflow_api_client/version.py": r'^__version__ = "(.+)"$',
    "clients/typescript/package-lock.json": r'"name": "workflow-api-client",\s+"version": "(.+)"',
    "clients/typescript/package.json": r'^  "version": "(.+)",$',
    "clients/typescript/src/version.ts": r'^export const VERSION = "(.+)";$',
    "contract/versions.py": r'^RELEASE: Final = "(.+)"$',
    "deploy/compose/compose.yaml": r"WORKFLOW_API_RELEASE:-([^}]+)}",
    "deploy/container/Dockerfile": r"-t workflow-api:(\S+)",
    "deploy/helm/Chart.yaml": r'^(?:version|appVersion): "?([\w.]+)"?$',
    "deploy/kubernetes/kustomization.yaml": r"newTag: ([\w.]+)",
    "redaction/pyproject.toml": r'^version = "(.+)"$',
}
_ENTRY: Final = re.compile(
    r"^## \[(?P<version>[^\]]+)\] - (?P<date>\S+)\n(?P<notes>.*?)(?=^## \[|\Z)", re.MULTILINE | re.DOTALL
)
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


def version() -> str:
    """Returns the version of the service."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def disagreements() -> Iterator[str]:
    """Yields the files that name another release than pyproject.toml, and a changelog that begins with another."""
    wanted = version()
    for name, pattern in _NAMED.items():
        for found in re.findall(pattern, (ROOT / name).read_text(), re.MULTILINE) or ["no release"]:
            if found != wanted:
                yield f"{name} names {found} instead of {wanted}"
    newest, _, _ = newest_entry((ROOT / "CHANGELOG.md").read_text())
    if newest != wanted:
        yield f"CHANGELOG.md begins with {newest} instead of {wanted}"


def newest_entry(changelog: str) -> tuple[str, str, str]:
    """Returns version, date (or `unreleased`) and notes of the first entry of a changelog.

    Raises:
        ValueError: there is none.
    """
    entry = _ENTRY.search(changelog)
    if entry is None:
        raise ValueError("the changelog has no entry '## [VERSION] - DATE'")
    return entry["version"], entry["date"], entry["notes"].strip()


def obstacles() -> Iterator[str]:
    """Yields the reasons why this checkout cannot be released."""
    yield from disagreements()
    _, date, _ = newest_entry((ROOT / "CHANGELOG.md").read_text())
    if not _DATE.fullmatch(date):
        yield f"the newest entry of CHANGELOG.md says '{date}' in place of a date"
    if _git("status", "--porcelain"):
        yield "the checkout has changes that are not committed"
    if _git("tag", "--list", f"v{version()}"):
        yield f"the tag v{version()} exists"


def commands(image: str | None) -> list[list[str]]:
    """Returns the commands that publish dist/, and the image if `image` names it."""
    tag, steps = f"v{version()}", []
    if image is not None:
        name = f"{image}:{version()}"
        steps.append(["docker", "build", "--file", "deploy/container/Dockerfile", "--tag", name, "."])
        steps.append(["docker", "push", name])
    made = sorted(str(path.relative_to(ROOT)) for path in DIST.iterdir() if path != NOTES)
    packages = [name for name in made if name.endswith((".whl", ".tar.gz"))]
    steps.append([".venv/bin/uv", "publish", *packages])
    # The tag comes last, because a release with an existing tag is refused; a failed step can be repeated before.
    steps.append(["git", "tag", "--annotate", tag, "--message", f"Release {version()}"])
    steps.append(["git", "push", "origin", tag])
    steps.append(["gh", "release", "create", tag, "--verify-tag", "--notes-file", str(NOTES.relative_to(ROOT)), *made])
    return steps


def main() -> None:
    """Checks, builds, and publishes or prints how to."""
    parser = argparse.ArgumentParser(description="Says what a release of this checkout does, or does it.")
    parser.add_argument("--publish", action="store_true", help="do it: tag, push, upload")
    parser.add_argument("--image", metavar="NAME", help="as registry.example.org/workflow-api; no image without it")
    arguments = parser.parse_args()
    found = list(obstacles())
    for obstacle in found:
        print(f"Not releasable: {obstacle}.")
    if found and arguments.publish:
        sys.exit(1)
    subprocess.run([sys.executable, ROOT / "scripts" / "dist.py"], check=True)
    NOTES.write_text(newest_entry((ROOT / "CHANGELOG.md").read_text())[2] + "\n")
    for command in commands(arguments.image):
        print(("" if arguments.publish else "Would run: ") + shlex.join(command))
        if arguments.publish:
            subprocess.run(command, cwd=ROOT, check=True)


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
