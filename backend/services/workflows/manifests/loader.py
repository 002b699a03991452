"""Loads manifest files as definitions, or reports all problems of all files at once (contract 24)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from backend.common.errors import ApiError
from backend.common.json_text import JsonObject, canonical
from backend.resources.environments.lock import Lock
from backend.resources.schemas.content_checks import ContentChecks
from backend.services.workflows.manifests.approvals import APPROVAL
from backend.services.workflows.manifests.approvals import LATER_FIELDS as LATER_APPROVAL_FIELDS
from backend.services.workflows.manifests.attachments import Attachments
from backend.services.workflows.manifests.flows import expression_problems, flow_problems
from backend.services.workflows.manifests.kinds import DOCUMENT, LARGEST_DEFINITION_BYTES
from backend.services.workflows.manifests.nodes import DocumentNode, Problem, with_value
from backend.services.workflows.manifests.packages import package_problems
from backend.services.workflows.manifests.python_agent import Code, add_code, code_of
from backend.services.workflows.manifests.rules import ResourceReference, references, workflow_gaps, workflow_problems
from backend.services.workflows.manifests.tools import tool_problems, tool_references
from backend.services.workflows.manifests.variables import (
    NO_VARIABLES,
    InsertedDocument,
    VariableInserter,
    Variables,
    VariableValue,
    variable_problems,
)
from backend.services.workflows.manifests.workflow_fields import schema_problems
from backend.services.workflows.manifests.yaml_reader import read_file
from backend.services.workflows.model_answers import form_problem
from backend.services.workflows.rules import all_steps
from workflow_api.v1 import errors_pb2

_MOST_PROBLEMS = 200
_LATER_FIELDS = {
    "Environment": ("python", "variables"),
    "Agent": ("max_tool_calls", "structured", "max_model_calls", "keep_transcript", "attach"),
    "Workflow": ("on_failure", "always", "schedules", "budget"),
}
_LATER_STEP_FIELDS = frozenset(
    {
        "timeout_seconds",
        "when",
        "accept",
        "for_each",
        "max_items",
        "max_parallel",
        "on_item_failure",
        "workflow",
        "version",
        "parameters",
    }
)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A valid document: kind, name, and its definition with defaults as canonical JSON.

    `status` is a workflow's status, if the document has one; it is not part of the definition, so that a change of it
    makes no new version. `lock` is the new package lock that an environment's definition names. `variables` are the
    variables that the document uses, with their values.
    """

    kind: str
    name: str
    definition: str
    status: str | None
    file: str
    line: int
    code: Code | None = None
    """The folder of an agent with `source`, whose digest is in the definition."""
    lock: Lock | None = None
    variables: Mapping[str, VariableValue] = field(default_factory=dict)


class ManifestText(NamedTuple):
    """A file of manifests: its name for messages, its YAML text, and its attached files."""

    name: str
    text: str
    attachments: Attachments = Attachments()


ManifestTexts = Iterable[ManifestText | tuple[str, str]]


class LoadedManifests(NamedTuple):
    """The valid documents of files, and all problems, each as `file:line: field` and reason.

    `missing` are references to documents that the files lack, but that may exist in a deployment. `not_ready` are gaps
    with which a workflow may be applied, but not run. `used` are the names of the variables in the documents.
    """

    manifests: list[Manifest]
    problems: list[tuple[str, str]]
    missing: list[tuple[str, str]]
    not_ready: list[tuple[str, str]]
    used: frozenset[str] = frozenset()


def load_manifests(files: ManifestTexts, checks: ContentChecks, variables: Variables = NO_VARIABLES) -> list[Manifest]:
    """Loads files, with or without attachments; `checks` checks schemas and code.

    Raises:
        ApiError: `invalid_request` with every problem of all files, each named `file:line: field`.
    """
    loaded = check_manifests(files, checks, variables)
    if loaded.problems:
        raise refused(loaded.problems)
    return loaded.manifests


def check_manifests(
    files: ManifestTexts, checks: ContentChecks, variables: Variables = NO_VARIABLES, *, complete: bool = False
) -> LoadedManifests:
    """Loads files as `load_manifests`, and returns all problems instead of raising.

    With `complete`, files must contain every document that they name: missing ones are problems too, unless some
    document could not be read.
    """
    wrong = variable_problems(variables)
    if wrong:
        return LoadedManifests([], wrong, [], [])
    inserter = VariableInserter(variables)
    read: list[tuple[str, int, list[Problem], list[_Document]]] = []
    all_read = True
    for file in files:
        given = ManifestText(*file)
        found: list[Problem] = []
        nodes, whole = read_file(given.text, found)
        all_read = all_read and whole
        documents = [_with_variables(given, node, checks, inserter) for node in nodes]
        found += (with_value(problem, document.node) for document in documents for problem in document.problems)
        # Parsers may report the end of a file as one line beyond the last.
        read.append((given.name, max(1, len(given.text.splitlines())), found, documents))
    every = [document for *_, documents in read for document in documents]
    present = {document.key for document in every}
    problems: list[tuple[str, str]] = []
    missing: list[tuple[str, str]] = []
    not_ready: list[tuple[str, str]] = []
    for name, last, found, documents in read:
        absent = [
            Problem(each.line, each.field, f"must name a document of kind {each.kind}; no file has {each.name!r}")
            for document in documents
            for each in document.references
            if (each.kind, each.name) not in present
        ]
        problems += _with_lines(name, last, [*found, *absent] if complete and all_read else found)
        missing += _with_lines(name, last, absent)
        not_ready += _with_lines(name, last, [gap for document in documents for gap in document.gaps])
    problems += _repeated(every)
    if not every and not problems:
        problems.append(("files", "must hold at least one document"))
    manifests = [document.manifest for document in every if document.manifest is not None]
    return LoadedManifests(manifests, problems, missing, not_ready, frozenset(inserter.used))


def _with_lines(file: str, last: int, problems: list[Problem]) -> Iterator[tuple[str, str]]:
    for line, name, reason in sorted(problems):
        yield f"{file}:{min(line, last)}: {name}", reason


def refused(problems: list[tuple[str, str]]) -> ApiError:
    """Returns the error for invalid manifests, which lists the first problems."""
    listed = problems[:_MOST_PROBLEMS]
    if len(problems) > len(listed):
        listed.append(("files", f"have {len(problems) - len(listed):,} more problems"))
    message = "The manifests are not valid; nothing of them was applied."
    return ApiError(errors_pb2.ERROR_REASON_INVALID_REQUEST, message, problems=listed)


@dataclass(frozen=True, slots=True)
class _Document:
    """The readable parts of a document; `manifest` is None if it has problems.

    `gaps` are missing parts with which a workflow may be applied, but not run. `used` are the names of used variables.
    """

    file: str
    node: DocumentNode
    problems: list[Problem]
    references: list[ResourceReference]
    manifest: Manifest | None
    gaps: tuple[Problem, ...] = ()

    @property
    def key(self) -> tuple[str, str] | None:
        """Kind and name, also of a document with problems; None if they cannot be read."""
        match self.node.value:
            case {"kind": DocumentNode(value=str(kind)), "name": DocumentNode(value=str(name))}:
                return kind, name
        return None


def _with_variables(
    given: ManifestText, node: DocumentNode, checks: ContentChecks, inserter: VariableInserter
) -> _Document:
    """Returns a document with the values of its variables; a field with mistakes in variables has no other problem."""
    mistakes: list[Problem] = []
    inserted = inserter.insert(node, mistakes)
    document = _read(given, inserted.node, checks)
    if inserted.used and document.manifest is not None:
        document = replace(document, manifest=replace(document.manifest, variables=inserted.used))
    return document if not mistakes else _with_mistakes(document, mistakes, inserted)


def _with_mistakes(document: _Document, mistakes: list[Problem], inserted: InsertedDocument) -> _Document:
    wrong = inserted.fields_with_problems
    others = [each for each in document.problems if each.field not in wrong]
    named = [each for each in document.references if each.field not in wrong]
    return replace(document, problems=[*mistakes, *others], references=named, manifest=None)


def _read(given: ManifestText, node: DocumentNode, checks: ContentChecks) -> _Document:
    file = given.name
    problems: list[Problem] = []
    value = DOCUMENT.read(node, "", problems)
    if value is None:
        return _Document(file, node, problems, [], None)
    named: list[ResourceReference] = []
    gaps: tuple[Problem, ...] = ()
    if value["kind"] == "Workflow":
        gaps = tuple(workflow_gaps(value, node))
        problems += workflow_problems(value, node)
        problems += flow_problems(value, node)
        named += references(value, node)
    code = None
    if value["kind"] == "Agent":
        problems += tool_problems(value, node)
        if reason := form_problem(value):
            problems.append(Problem(node.line_of("structured"), "output_schema", reason))
        named += tool_references(value, node)
        problems += add_code(value, node, given.attachments, checks)
        code = code_of(value, given.attachments)
    if value["kind"] == "Environment" and value.get("python"):
        problems += (
            Problem(node.line_of("python", place), f"python.{place}", reason)
            for place, reason in package_problems(value["python"], given.attachments)
        )
    problems += schema_problems(value, node, checks)
    if value["kind"] == "Workflow":
        problems += expression_problems(value, node, checks)
    if problems:
        return _Document(file, node, problems, named, None, gaps)
    kind = value.pop("kind")
    status = value.pop("status") if kind == "Workflow" else None
    _leave_out_later_fields(kind, value)
    definition = canonical(value)
    if len(definition.encode()) > LARGEST_DEFINITION_BYTES:
        problems.append(Problem(node.line, "document", f"must have at most {LARGEST_DEFINITION_BYTES:,} bytes"))
        return _Document(file, node, problems, named, None)
    manifest = Manifest(kind, value["name"], definition, status, file, node.line, code)
    return _Document(file, node, problems, named, manifest, gaps)


def _leave_out_later_fields(kind: str, value: JsonObject) -> None:
    """Removes defaults of fields that earlier releases lacked, so that an unchanged document makes no new version."""
    for name in _LATER_FIELDS.get(kind, ()):
        if name in value and not value[name]:
            del value[name]
    if kind != "Workflow":
        return
    if value["on_interruption"] == "fail":
        del value["on_interruption"]
    for step in all_steps(value):
        if step["outputs"] is True:
            del step["outputs"]
        for name in _LATER_STEP_FIELDS & step.keys():
            if step[name] is None:
                del step[name]
        approval = step.get("approval") or {}
        for name in LATER_APPROVAL_FIELDS:
            if name in approval and approval[name] == APPROVAL.fields[name].default:
                del approval[name]


def _repeated(documents: Iterable[_Document]) -> Iterator[tuple[str, str]]:
    first: dict[tuple[str, str], _Document] = {}
    for document in documents:
        if document.key is not None and (other := first.setdefault(document.key, document)) is not document:
            place = f"{document.file}:{document.node.line}: name"
            yield (
                place,
                f"must be unique among the {document.key[0]} documents; {other.file}:{other.node.line} has it too",
            )
