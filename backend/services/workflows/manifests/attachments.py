"""Paths by which documents name files beside their manifest, and the files that come with a manifest."""

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from backend.common.json_text import JsonMapping
from backend.services.workflows.manifests.nodes import DocumentNode, Problem
from backend.services.workflows.manifests.variables import NO_VARIABLES, VariableInserter, Variables
from backend.services.workflows.manifests.yaml_reader import read_documents

LARGEST_CODE_BYTES: Final = 10 * 2**20
MOST_CODE_FILES: Final = 1_000
LONGEST_PATH: Final = 1_024

_BELOW: Final = r"^(?!/)(?!(?:.*/)?\.\.(?:/|$))[^\x00-\x1f\x7f\\]+$"

PATH_SCHEMA: Final[JsonMapping] = {
    "type": "string",
    "minLength": 1,
    "maxLength": LONGEST_PATH,
    "pattern": _BELOW,
    "patternErrorMessage": "must be a path as agents/digest",
}
"""JSON Schema of a path."""

PYTHON_PATH_SCHEMA: Final[JsonMapping] = {
    **PATH_SCHEMA,
    # A path is taken in its normal form, which has no slash at its end.
    "pattern": rf"^(?=.*\.py(?:/\.?)*$){_BELOW.removeprefix('^')}",
    "patternErrorMessage": "must be a path as digest.py",
}
"""JSON Schema of the path of a Python file."""

_MUST_BE: Final = "must be a path below the manifest's own folder, with /, and without .. in it"
_FORBIDDEN: Final = re.compile(r"[\x00-\x1f\x7f\\]")


@dataclass(frozen=True, slots=True)
class Attachments:
    """The files that come with a manifest, by their path from its folder.

    `unreadable` has the reasons why what a path of the manifest names could not be read.
    """

    files: Mapping[str, bytes] = field(default_factory=dict)
    unreadable: Mapping[str, Sequence[str]] = field(default_factory=dict)


class AttachedPath(NamedTuple):
    """A path in a manifest, in its normal form, and the field that has it."""

    field: str
    path: str


def check_path(value: object) -> str:
    """Returns a path in its normal form, as `agents/digest`; `.` is the manifest's own folder.

    Raises:
        ValueError: it is no path below that folder; the text is for a person.
    """
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_PATH:
        raise ValueError(_MUST_BE)
    if value.startswith("/") or _FORBIDDEN.search(value) or ".." in value.split("/"):
        raise ValueError(_MUST_BE)
    return posixpath.normpath(value)


def check_python_path(value: object) -> str:
    """Returns the path of a Python file in its normal form; raises as `check_path`."""
    path = check_path(value)
    if not path.endswith(".py"):
        raise ValueError("must be the path of a file that ends with .py")
    return path


def attached_paths(text: str, variables: Variables = NO_VARIABLES) -> Iterator[AttachedPath]:
    """Yields the valid paths in a manifest file, each once; what cannot be read has none."""
    ignored: list[Problem] = []
    found: dict[AttachedPath, None] = {}
    inserter = VariableInserter(variables)
    for document in read_documents(text, ignored):
        inserted = inserter.insert(document, ignored)
        match inserted.node.value:
            case {"kind": DocumentNode(value="Agent"), **fields}:
                found |= dict.fromkeys(_paths(fields, code_file=check_python_path, source=check_path))
            case {"kind": DocumentNode(value="Environment"), "python": DocumentNode(value=dict(fields))}:
                found |= dict.fromkeys(_paths(fields, requirements=check_path))
    yield from found


def below(files: Mapping[str, bytes], folder: str) -> dict[str, bytes]:
    """Returns the files of a folder, by their path from it."""
    if folder == ".":
        return dict(files)
    start = f"{folder}/"
    return {path.removeprefix(start): content for path, content in files.items() if path.startswith(start)}


def _paths(fields: Mapping[Any, Any], **checks: Callable[[object], str]) -> Iterator[AttachedPath]:
    for name, check in checks.items():
        node = fields.get(name)
        if node is not None:
            try:
                yield AttachedPath(name, check(node.value))
            except ValueError:
                continue
