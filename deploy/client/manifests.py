"""Reads manifest files for `ApplyManifests`."""

import sys
from pathlib import Path
from typing import Final

from deploy.failures import CommandFailed
from workflow_api.v1 import workflows_pb2

STANDARD_INPUT: Final = "-"


def read_manifests(names: list[str]) -> list[workflows_pb2.ManifestFile]:
    """Reads manifest files.

    Raises:
        CommandFailed: a file cannot be read; the details name every one.
    """
    manifests = []
    problems = []
    for name in names:
        try:
            manifests.append(_read_manifest(name))
        except OSError as error:
            problems.append({"name": name, "reason": f"cannot be read: {error.strerror}"})
        except UnicodeDecodeError as error:
            problems.append({"name": name, "reason": f"is not UTF-8 at byte {error.start}"})
    if problems:
        raise CommandFailed("A file cannot be read.", code="invalid_request", details=problems)
    return manifests


def _read_manifest(name: str) -> workflows_pb2.ManifestFile:
    if name == STANDARD_INPUT:
        return workflows_pb2.ManifestFile(name="standard input", content=sys.stdin.buffer.read().decode())
    return workflows_pb2.ManifestFile(name=name, content=Path(name).read_bytes().decode())
