"""Variables of manifests: `${vars.NAME}` in text fields is replaced by a value that comes with the files.

`$${vars.` stands for the text `${vars.`. Code of agents and requirements of packages have no variables. An inserted
value is not searched for variables.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from backend.common.json_text import JsonObject
from backend.services.workflows.manifests.nodes import DocumentNode, Problem, Scalar, member
from backend.services.workflows.manifests.yaml_reader import scalar_of

MOST_VARIABLES: Final = 256
LONGEST_NAME: Final = 64
LONGEST_VALUE: Final = 4_096
MOST_CHARACTERS: Final = 65_536
"""Most characters of all values together: values are stored with each version that uses them."""
MOST_INSERTED: Final = 16 * 2**20
"""Most characters that variables may insert into the files of one call."""

NAME: Final = re.compile(rf"[A-Za-z_][A-Za-z0-9_]{{0,{LONGEST_NAME - 1}}}")

_START: Final = "${vars."
_REFERENCE: Final = re.compile(r"(\$?)\$\{vars\.([A-Za-z0-9_]*)(\}?)")
_MOST_LISTED: Final = 20
_MOST_MISTAKES: Final = 20
"""Most mistakes that are reported of one text: the place of each is found by reading the text again."""
_WITHOUT_VARIABLES: Final[Mapping[str, frozenset[str]]] = {
    "Agent": frozenset({"code"}),
    "Environment": frozenset({"python.packages"}),
}
"""Fields without variables, by kind of document."""
_MUST_NAME: Final = (
    f"must name a variable as ${{vars.NAME}}, of 1 to {LONGEST_NAME} letters, digits and _ that begin with no digit, "
    "or be written $${vars. for the text itself"
)


class VariableValue(NamedTuple):
    """Value of a variable as text; unless `quoted`, it is read as unquoted YAML in a field for a number or boolean."""

    text: str
    quoted: bool = False

    @property
    def scalar(self) -> Scalar | None:
        """The number or boolean that the text stands for; None for a text."""
        return None if self.quoted else scalar_of(self.text)


Variables = Mapping[str, VariableValue]
"""Values of variables by name."""
NO_VARIABLES: Final[Variables] = {}


def variable_problems(variables: Variables, *, place: str = "variables") -> list[tuple[str, str]]:
    """Returns the problems of names, values and their number, each as a place and a reason."""
    if len(variables) > MOST_VARIABLES:
        return [(place, f"must be at most {MOST_VARIABLES}; there are {len(variables):,}")]
    problems = []
    for name, value in variables.items():
        shown = member(place, name)
        if not NAME.fullmatch(name):
            reason = f"must have a name of 1 to {LONGEST_NAME} letters, digits and _ that begins with no digit"
            problems.append((shown, reason))
        if len(value.text) > LONGEST_VALUE:
            problems.append((shown, f"must have at most {LONGEST_VALUE:,} characters; it has {len(value.text):,}"))
        if "\0" in value.text:
            problems.append((shown, "must not contain U+0000"))
    if (size := sum(len(value.text) for value in variables.values())) > MOST_CHARACTERS:
        problems.append((place, f"must have at most {MOST_CHARACTERS:,} characters together; they have {size:,}"))
    return problems


def escape_variables(value: Any) -> Any:
    """Escapes `${vars.` in the texts of a JSON value, so that reading gives the value again."""
    if isinstance(value, dict):
        return {name: escape_variables(each) for name, each in value.items()}
    if isinstance(value, list):
        return [escape_variables(each) for each in value]
    return value.replace(_START, f"${_START}") if isinstance(value, str) else value


def replace_variables(value: Any, variables: Variables) -> Any:
    """Replaces variables in the texts of a JSON value; unknown variables stay."""
    if isinstance(value, dict):
        return {name: replace_variables(each, variables) for name, each in value.items()}
    if isinstance(value, list):
        return [replace_variables(each, variables) for each in value]
    return _REFERENCE.sub(lambda match: _text_of(match, variables), value) if isinstance(value, str) else value


def _text_of(match: re.Match[str], variables: Variables) -> str:
    if match[1]:
        return match[0][1:]
    return variables[match[2]].text if match[3] and match[2] in variables else match[0]


def has_no_variables(kind: str, name: str) -> bool:
    """Returns whether variables are not replaced in a field; `name` is the field's path without indexes."""
    return name in _WITHOUT_VARIABLES.get(kind, ())


class InsertedDocument(NamedTuple):
    """A document after insertion, the variables that it uses, and the fields with problems of variables."""

    node: DocumentNode
    used: Mapping[str, VariableValue]
    fields_with_problems: Collection[str]


class VariableInserter:
    """Inserts the values of variables into the documents of one call, within a bound of characters."""

    def __init__(self, variables: Variables) -> None:
        self.variables = variables
        self.used: set[str] = set()
        self._room = MOST_INSERTED

    def insert(self, document: DocumentNode, problems: list[Problem]) -> InsertedDocument:
        """Replaces the variables of a document by their values; adds to `problems`."""
        insertion = _Insertion(self, problems)
        node = insertion.insert(document, "")
        return InsertedDocument(node, insertion.used, insertion.fields_with_problems)

    def value(self, name: str) -> VariableValue | None:
        """Returns the value of a variable, which counts as used; None where there is none."""
        found = self.variables.get(name)
        if found is not None:
            self.used.add(name)
        return found

    def take_room(self, characters: int) -> bool:
        """Counts inserted characters; returns False above the bound."""
        self._room -= characters
        return self._room >= 0

    @property
    def known(self) -> str:
        """Text that lists the names of the variables, for a message."""
        names = sorted(self.variables)
        if not names:
            return "no variable is given"
        more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
        return f"given are: {', '.join(names[:_MOST_LISTED])}{more}"


@dataclass(slots=True)
class _Insertion:
    """Insertion into one document."""

    inserter: VariableInserter
    problems: list[Problem]
    used: dict[str, VariableValue] = field(default_factory=dict)
    fields_with_problems: set[str] = field(default_factory=set)
    kind: str = ""

    def insert(self, node: DocumentNode, name: str) -> DocumentNode:
        """Replaces the variables in a node; returns the node itself if it has no variables."""
        if has_no_variables(self.kind, name):
            return node
        value = node.value
        if isinstance(value, str):
            return self._text(node, name) if _START in value else node
        if isinstance(value, list):
            items = [self.insert(item, f"{name}[{index}]") for index, item in enumerate(value)]
            return replace(node, value=items) if _differ(items, value) else node
        if isinstance(value, dict):
            members = dict(value)
            if not name and "kind" in members:
                # The kind, which decides the fields without variables, may be a variable itself.
                members["kind"] = kind = self.insert(members["kind"], "kind")
                self.kind = kind.value if isinstance(kind.value, str) else ""
            rest = {each: self.insert(inner, member(name, each)) for each, inner in members.items()}
            return replace(node, value=rest) if _differ(rest.values(), value.values()) else node
        return node

    def _text(self, node: DocumentNode, name: str) -> DocumentNode:
        text: str = node.value
        parts: list[str] = []
        scalar: Scalar | None = None
        end = 0
        known = len(self.problems)
        for number, match in enumerate(_REFERENCE.finditer(text)):
            parts.append(text[end : match.start()])
            end = match.end()
            value, reason = self._value(match)
            if value is None:
                line, column = _position(node, number)
                self.problems.append(Problem(line, name or "document", f"{reason}, at column {column}"))
                self.fields_with_problems.add(name)
                if len(self.problems) - known == _MOST_MISTAKES:
                    return node
                continue
            if not self.inserter.take_room(len(value.text)):
                reason = f"must not take more than {MOST_INSERTED:,} characters from variables in all files together"
                self.problems.append(Problem(node.line, name or "document", reason))
                self.fields_with_problems.add(name)
                return replace(node, value="")
            parts.append(value.text)
            if match.span() == (0, len(text)) and not match[1]:
                scalar = value.scalar
        if len(self.problems) > known:
            return node
        return replace(node, value="".join([*parts, text[end:]]), scalar=scalar)

    def _value(self, match: re.Match[str]) -> tuple[VariableValue | None, str]:
        """Returns the value to insert for a reference, or None and the problem."""
        escaped, name, closed = match.groups()
        if escaped:
            return VariableValue(match[0][1:]), ""
        if not closed or not NAME.fullmatch(name):
            return None, _MUST_NAME
        value = self.inserter.value(name)
        if value is None:
            return None, f"uses the variable {name}, which is not given ({self.inserter.known})"
        self.used[name] = value
        return value, ""


def _differ(changed: Collection[DocumentNode], nodes: Collection[DocumentNode]) -> bool:
    return any(one is not other for one, other in zip(changed, nodes, strict=True))


def _position(node: DocumentNode, number: int) -> tuple[int, int]:
    """Returns line and column of a reference by its number in a text, or of the text if escapes hide the reference."""
    references = list(_REFERENCE.finditer(node.written))
    if number >= len(references):
        return node.line, node.column
    above = node.written[: references[number].start()]
    line, _, last = above.rpartition("\n")
    if not line and "\n" not in above:
        return node.line, node.column + len(above)
    return node.line + above.count("\n"), len(last) + 1


_REFERENCE_SCHEMA: Final[JsonObject] = {"type": "string", "pattern": r"\$\{vars\.[A-Za-z_][A-Za-z0-9_]*\}"}
_ANNOTATIONS: Final = frozenset({"description", "default", "examples", "title"})
_INNER_SCHEMAS: Final = ("items", "additionalProperties", "then", "if", "not")
_CHOICES: Final = ("allOf", "anyOf", "oneOf")


def allow_references(schema: Any) -> Any:
    """Returns the schema changed to accept `${vars.NAME}` wherever it bounds a single value."""
    if not isinstance(schema, dict):
        return schema
    if _is_bounded_value(schema):
        about = {name: each for name, each in schema.items() if name in _ANNOTATIONS}
        bounds = {name: each for name, each in schema.items() if name not in _ANNOTATIONS}
        return {**about, "anyOf": [bounds, _REFERENCE_SCHEMA]}
    changed = dict(schema)
    if "properties" in schema:
        changed["properties"] = {name: allow_references(each) for name, each in schema["properties"].items()}
    for name in _CHOICES:
        if name in schema:
            changed[name] = [_allow_in_choice(each) for each in schema[name]]
    changed |= {name: allow_references(schema[name]) for name in _INNER_SCHEMAS if name in schema and name != "if"}
    return changed


def _allow_in_choice(schema: Any) -> Any:
    """Returns one of several schemas changed likewise, but for the condition that selects it."""
    if isinstance(schema, dict) and "if" in schema:
        return {**schema, "then": allow_references(schema["then"])}
    return allow_references(schema)


def _is_bounded_value(schema: JsonObject) -> bool:
    kinds = schema.get("type", [])
    kinds = {kinds} if isinstance(kinds, str) else set(kinds)
    if "object" in kinds or "array" in kinds or "properties" in schema:
        return False
    return "enum" in schema or "pattern" in schema or bool(kinds & {"integer", "number", "boolean"})
