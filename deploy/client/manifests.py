"""Reads manifest files for `ApplyManifests`, with the files that their documents name."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from backend.workflows.manifests.attachments import Attachments
from backend.workflows.manifests.loader import ManifestText
from deploy.client.packing import pack
from deploy.failures import CommandFailed
from workflow_api.v1 import workflows_pb2

STANDARD_INPUT: Final = "-"
MOST_ATTACHED_BYTES: Final = 48 * 2**20


def read_manifests(names: list[str]) -> list[workflows_pb2.ManifestFile]:
    """Reads manifest files, and packs the files that their documents name.

    Raises:
        CommandFailed: a file cannot be read, or such a file cannot be packed; the details name every problem.
    """
    return manifest_messages(read_texts(names))


def manifest_messages(texts: Sequence[ManifestText]) -> list[workflows_pb2.ManifestFile]:
    """Returns texts of manifests as they are sent, with the code that was packed for them.

    Raises:
        CommandFailed: code could not be packed, or is too large for one call; the details name every problem.
    """
    if any(text.attachments.unreadable for text in texts):
        from deploy.client.validation import check_texts, refused

        raise refused(check_texts(texts, complete=False).problems)
    attached = sum(len(content) for text in texts for content in text.attachments.files.values())
    if attached > MOST_ATTACHED_BYTES:
        reason = f"The files of one apply must have at most {MOST_ATTACHED_BYTES:,} bytes; this has {attached:,}."
        raise CommandFailed(f"{reason} Apply the manifests one by one.", code="invalid_request")
    return [_message(text) for text in texts]


def read_texts(names: list[str]) -> list[ManifestText]:
    """Reads manifest files, and packs what can be read.

    Raises:
        CommandFailed: a manifest file cannot be read; the details name every one.
    """
    texts, problems = read_readable(names)
    if problems:
        details = [{"name": name, "reason": reason} for name, reason in problems]
        raise CommandFailed("A file cannot be read.", code="invalid_request", details=details)
    return texts


def read_readable(names: list[str]) -> tuple[list[ManifestText], list[tuple[str, str]]]:
    """Reads the manifest files that can be read; returns them, and of each other one its name and the reason."""
    texts = []
    problems = []
    for name in names:
        try:
            texts.append(_read_text(name))
        except OSError as error:
            problems.append((name, f"cannot be read: {error.strerror}"))
        except UnicodeDecodeError as error:
            problems.append((name, f"is not UTF-8 at byte {error.start}"))
    return texts, problems


def _read_text(name: str) -> ManifestText:
    if name == STANDARD_INPUT:
        text = sys.stdin.buffer.read().decode()
        return ManifestText("standard input", text, pack(Path(), text))
    text = Path(name).read_bytes().decode()
    return ManifestText(name, text, pack(Path(name).parent, text))


def _message(text: ManifestText) -> workflows_pb2.ManifestFile:
    attached: Attachments = text.attachments
    files = [workflows_pb2.AttachedFile(path=path, content=content) for path, content in attached.files.items()]
    return workflows_pb2.ManifestFile(name=text.name, content=text.text, attached_files=files)
