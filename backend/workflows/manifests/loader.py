"""Loads manifest files to definitions, or reports all problems of all files at once (contract 24)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from backend.errors import ApiError
from backend.json_text import canonical
from backend.workflows.manifests.kinds import DOCUMENT, LARGEST_DEFINITION_BYTES
from backend.workflows.manifests.nodes import Node, Problem, read_documents
from backend.workflows.manifests.result_schema import SchemaCheck, schema_problems
from backend.workflows.manifests.rules import workflow_problems
from workflow_api.v1 import errors_pb2

_MOST_PROBLEMS = 200


@dataclass(frozen=True, slots=True)
class Manifest:
    """A valid document: kind, name, and its definition with defaults as canonical JSON.

    `status` is the status of a workflow if the document has one; it is not part of the definition, so that changing it
    makes no new version.
    """

    kind: str
    name: str
    definition: str
    status: str | None
    file: str
    line: int


def load_manifests(files: Iterable[tuple[str, str]], check: SchemaCheck) -> list[Manifest]:
    """Loads files, each given as a name for messages and YAML text; `check` checks the schemas in them.

    Raises:
        ApiError: `invalid_request` with every problem of all files, each named `file:line: field`.
    """
    manifests: list[Manifest] = []
    problems: list[tuple[str, str]] = []
    for file, text in files:
        found: list[Problem] = []
        documents = read_documents(text, found)
        manifests.extend(_manifests(file, documents, found, check))
        # Parsers may report the end of a file as one line beyond the last.
        last = max(1, len(text.splitlines()))
        problems.extend((f"{file}:{min(line, last)}: {field}", reason) for line, field, reason in sorted(found))
    problems.extend(_repeated(manifests))
    if not manifests and not problems:
        problems.append(("files", "must hold at least one document"))
    if problems:
        raise refused(problems)
    return manifests


def refused(problems: list[tuple[str, str]]) -> ApiError:
    """Returns the error for manifests with these problems, of which it lists the first."""
    listed = problems[:_MOST_PROBLEMS]
    if len(problems) > len(listed):
        listed.append(("files", f"have {len(problems) - len(listed):,} more problems"))
    message = "The manifests are not valid; nothing of them was applied."
    return ApiError(errors_pb2.ERROR_REASON_INVALID_REQUEST, message, problems=listed)


def _manifests(file: str, documents: Iterable[Node], problems: list[Problem], check: SchemaCheck) -> Iterator[Manifest]:
    for node in documents:
        found: list[Problem] = []
        value = DOCUMENT.read(node, "", found)
        if value is not None and value["kind"] == "Workflow":
            found += workflow_problems(value, node)
        if value is not None:
            found += schema_problems(value, node, check)
        if not found:
            kind = value.pop("kind")
            status = value.pop("status") if kind == "Workflow" else None
            definition = canonical(value)
            if len(definition.encode()) <= LARGEST_DEFINITION_BYTES:
                yield Manifest(kind, value["name"], definition, status, file, node.line)
            else:
                found.append(Problem(node.line, "document", f"must have at most {LARGEST_DEFINITION_BYTES:,} bytes"))
        problems.extend(found)


def _repeated(manifests: Iterable[Manifest]) -> Iterator[tuple[str, str]]:
    first: dict[tuple[str, str], Manifest] = {}
    for manifest in manifests:
        other = first.setdefault((manifest.kind, manifest.name), manifest)
        if other is not manifest:
            place = f"{manifest.file}:{manifest.line}: name"
            yield place, f"must be unique among the {manifest.kind} documents; {other.file}:{other.line} has it too"
