"""Files that are sent with a manifest, and the relative paths by which documents name them."""

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
    # A path is normalised, which removes a slash at its end.
    "pattern": rf"^(?=.*\.py(?:/\.?)*$){_BELOW.removeprefix('^')}",
    "patternErrorMessage": "must be a path as digest.py",
}
"""JSON Schema of the path of a Python file."""

_MUST_BE: Final = "must be a path below the manifest's own folder, with /, and without .. in it"
_FORBIDDEN: Final = re.compile(r"[\x00-\x1f\x7f\\]")


@dataclass(frozen=True, slots=True)
class Attachments:
    """The files that are sent with a manifest, by path relative to its folder.

    `unreadable` has, by path, the reasons why a named file could not be read.
    """

    files: Mapping[str, bytes] = field(default_factory=dict)
    unreadable: Mapping[str, Sequence[str]] = field(default_factory=dict)


class AttachedPath(NamedTuple):
    """A normalised path in a manifest, and the field that contains it."""

    field: str
    path: str


def check_path(value: object) -> str:
    """Returns a path in its normal form, as `agents/digest`; `.` is the manifest's own folder.

    Raises:
        ValueError: the path is not below that folder; the text is for a person.
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
    """Yields the distinct valid paths in the readable parts of a manifest file, with `variables` inserted."""
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
    """Returns the files in a folder, by path relative to the folder."""
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
