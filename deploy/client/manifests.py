"""Reads manifest files, with the files that they name, for `ApplyManifests`, and checks them without a backend."""

import sys
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, Final

from backend.services.workflows.manifests.attachments import Attachments
from backend.services.workflows.manifests.loader import LoadedManifests, ManifestText, check_manifests
from backend.services.workflows.manifests.variables import NO_VARIABLES, Variables
from contract.bounds import SizeBounds
from contract.fields import rules_of
from deploy.client.packing import pack
from deploy.failures import CommandError
from workflow_api.v1 import workflows_pb2

STANDARD_INPUT: Final = "-"
_STANDARD_INPUT_SHOWN: Final = "standard input"
_BOUNDS: Final = SizeBounds(rules_of(workflows_pb2.ApplyManifestsRequest.DESCRIPTOR.fields_by_name["files"]))


def read_manifests(names: list[str], variables: Variables = NO_VARIABLES) -> list[workflows_pb2.ManifestFile]:
    """Reads manifest files, and packs the files that their documents name, after replacing `variables`.

    Raises:
        CommandError: a file cannot be read or packed; the details name every problem of all files.
    """
    return manifest_messages(read_texts(names, variables), variables)


def manifest_messages(
    texts: Sequence[ManifestText], variables: Variables = NO_VARIABLES
) -> list[workflows_pb2.ManifestFile]:
    """Returns manifests as messages, with the code packed for them.

    Raises:
        CommandError: code could not be packed, or all of it is too large for one call; the details name every problem.
    """
    if any(text.attachments.unreadable for text in texts):
        raise refused(check_texts(texts, variables, complete=False).problems)
    messages = [_message(text) for text in texts]
    problem = _BOUNDS.violation(messages)
    if problem is not None:
        sizes = [(len(content), path) for text in texts for path, content in text.attachments.files.items()]
        sizes += [(len(text.text.encode()), text.name) for text in texts]
        size, largest = max(sizes)
        raise CommandError(
            f"The files of one apply {problem}; the largest, {largest}, has {size:,}. Apply them one by one.",
            code="invalid_request",
        )
    return messages


def read_texts(names: list[str], variables: Variables = NO_VARIABLES) -> list[ManifestText]:
    """Reads manifest files, and packs the files that they name.

    Raises:
        CommandError: a manifest file cannot be read; the details name each, and every problem of the other files.
    """
    texts = []
    problems = []
    for name in names:
        shown = _STANDARD_INPUT_SHOWN if name == STANDARD_INPUT else name
        try:
            texts.append(_read_text(name, shown, variables))
        except OSError as error:
            problems.append((shown, f"cannot be read: {error.strerror}"))
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            problems.append((f"{shown}:{line}: document", f"must be UTF-8; the byte at offset {error.start} is not"))
        except _TooLargeError:
            problems.append((shown, f"must have at most {_BOUNDS.most:,} bytes, with the files that it names"))
    if problems:
        # Documents that the other files lack may be in an unreadable one.
        found = check_texts(texts, variables, complete=False).problems if texts else ()
        raise refused([*problems, *found])
    return texts


class _TooLargeError(Exception):
    """A manifest file is larger than one call may be."""


def check_texts(
    texts: Iterable[ManifestText], variables: Variables = NO_VARIABLES, *, complete: bool
) -> LoadedManifests:
    """Returns the documents of manifest files, and all their problems; see `check_manifests`."""
    from backend.resources.schemas.validator import SchemaValidator

    with closing(SchemaValidator()) as validator:
        return check_manifests(texts, validator.manifest_checks(), variables, complete=complete)


def refused(problems: Iterable[tuple[str, str]]) -> CommandError:
    """Returns the failure of a command whose manifests have `problems`."""
    details = [{"name": place, "reason": reason} for place, reason in problems]
    return CommandError("The manifests are not valid.", code="invalid_request", details=details)


def _read_text(name: str, shown: str, variables: Variables) -> ManifestText:
    if name == STANDARD_INPUT:
        text = _bounded(sys.stdin.buffer)
        return ManifestText(shown, text, pack(Path(), text, variables))
    with Path(name).open("rb") as file:
        text = _bounded(file)
    return ManifestText(shown, text, pack(Path(name).parent, text, variables))


def _bounded(file: BinaryIO) -> str:
    content = file.read(_BOUNDS.most + 1)
    if len(content) > _BOUNDS.most:
        raise _TooLargeError
    return content.decode()


def _message(text: ManifestText) -> workflows_pb2.ManifestFile:
    attached: Attachments = text.attachments
    files = [workflows_pb2.AttachedFile(path=path, content=content) for path, content in attached.files.items()]
    return workflows_pb2.ManifestFile(name=text.name, content=text.text, attached_files=files)
