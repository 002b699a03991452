"""Reads the values of variables of manifests from files and from options of a command."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from backend.services.workflows.manifests.nodes import DocumentNode, Problem, member
from backend.services.workflows.manifests.variables import Variables, VariableValue, variable_problems
from backend.services.workflows.manifests.yaml_reader import read_documents
from deploy.failures import CommandError

_LARGEST_FILE_BYTES: Final = 8 * 2**20
_OPTION: Final = "--var"


class GivenVariables(NamedTuple):
    """Values of variables by name, and the names that came from `--var` options."""

    values: Variables
    by_option: frozenset[str]

    def unused(self, used: Iterable[str]) -> list[str]:
        """Returns the names from options that no manifest uses, which are probably mistyped."""
        return sorted(self.by_option - frozenset(used))

    @property
    def texts(self) -> dict[str, str]:
        """The values as text, as requests have them."""
        return {name: value.text for name, value in self.values.items()}

    @property
    def quoted(self) -> list[str]:
        """The names of the variables that are text in every field, as requests have them."""
        return [name for name, value in self.values.items() if value.quoted]


NONE_GIVEN: Final = GivenVariables({}, frozenset())


def read_variables(files: Sequence[Path], assignments: Sequence[tuple[str, str]]) -> GivenVariables:
    """Reads values from files, of which a later file wins, and from `assignments`, which win over files.

    Raises:
        CommandError: a file cannot be read, or a name or value is not allowed; the details name every problem.
    """
    values: dict[str, VariableValue] = {}
    problems: list[tuple[str, str]] = []
    for file in files:
        values |= _read_file(file, problems)
    options = {name: VariableValue(text) for name, text in assignments}
    problems += variable_problems(options, place=_OPTION)
    if not problems:
        problems += variable_problems({**values, **options})
    if problems:
        details = [{"name": place, "reason": reason} for place, reason in problems]
        raise CommandError("The variables are not valid.", code="invalid_request", details=details)
    return GivenVariables({**values, **options}, frozenset(options))


def unused_warnings(unused: Iterable[str]) -> Iterator[str]:
    """Yields a warning for each variable that no manifest uses."""
    for name in unused:
        yield f"warning: {_OPTION} {name}: no manifest uses the variable {name}"


def _read_file(file: Path, problems: list[tuple[str, str]]) -> dict[str, VariableValue]:
    found: list[Problem] = []
    try:
        with file.open("rb") as opened:
            content = opened.read(_LARGEST_FILE_BYTES + 1)
        if len(content) > _LARGEST_FILE_BYTES:
            problems.append((str(file), f"must have at most {_LARGEST_FILE_BYTES:,} bytes"))
            return {}
        documents = read_documents(content.decode("utf-8-sig"), found)
    except OSError as error:
        problems.append((str(file), f"cannot be read: {error.strerror}"))
        return {}
    except UnicodeDecodeError as error:
        problems.append((str(file), f"must be UTF-8; the byte at offset {error.start} is not"))
        return {}
    values = dict(_read_values(documents, found))
    lines = {name: node.line for document in documents[:1] for name, node in _members(document).items()}
    problems += ((f"{file}:{line}: {field}", reason) for line, field, reason in sorted(found))
    problems += (
        (f"{file}:{lines[name]}: {name}", reason)
        for name, value in values.items()
        for _, reason in variable_problems({name: value})
    )
    return values


def _members(document: DocumentNode) -> dict[str, DocumentNode]:
    return document.value if isinstance(document.value, dict) else {}


def _read_values(documents: Sequence[DocumentNode], problems: list[Problem]) -> Iterator[tuple[str, VariableValue]]:
    if len(documents) > 1:
        problems.append(Problem(documents[1].line, "document", "must be the only one: a file of variables has one"))
    for document in documents[:1]:
        if not isinstance(document.value, dict):
            problems.append(Problem(document.line, "document", "must be a mapping of names to values"))
        for name, node in _members(document).items():
            if isinstance(node.value, str):
                yield name, VariableValue(node.value, quoted=True)
            elif isinstance(node.value, int | float):
                yield name, VariableValue(node.written)
            else:
                problems.append(Problem(node.line, member("", name), "must be a text, a number, true or false"))
