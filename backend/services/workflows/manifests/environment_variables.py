"""Schema of the field `variables` of an environment: environment variables of its steps (contract 22.6)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from backend.common.json_text import JsonObject
from backend.services.workflows.manifests.nodes import DocumentNode, Problem, member
from backend.services.workflows.manifests.records import MapOf
from backend.services.workflows.manifests.shapes import INVALID, JsonSchema, Text, whole_value

MOST_VARIABLES: Final = 64
LONGEST_NAME: Final = 128
LONGEST_VALUE: Final = 4_096
MOST_BYTES: Final = 32_768
"""Most bytes of all names and values together, as UTF-8."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME_MUST: Final = f"must have a name of 1 to {LONGEST_NAME} letters, digits and _ that begins with no digit"

SET_BY_THE_SANDBOX: Final = frozenset(
    {"PATH", "LANG", "TZ", "HOME", "TMPDIR", "PWD", "TRACEPARENT", "TRACESTATE", "OPENBLAS_NUM_THREADS"}
)
_LOADER_VARIABLES: Final = frozenset({"BASH_ENV", "ENV", "GCONV_PATH", "IFS", "LC_ALL", "LC_CTYPE", "LOCPATH"})
"""Variables that make the C library, shells or the interpreter load other code, or decode text differently."""
_FORBIDDEN_STARTS: Final = ("LD_", "PYTHON", "GLIBC_", "BASH_FUNC_")


def name_problem(name: str) -> str:
    """Returns the problem of a variable's name; empty if the name is allowed."""
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        return _NAME_MUST
    if name in SET_BY_THE_SANDBOX:
        return "must not be a variable that the sandbox sets"
    if name in _LOADER_VARIABLES or name.startswith(_FORBIDDEN_STARTS):
        return "must not be a variable by which programs load other code, or run otherwise"
    return ""


@dataclass(frozen=True)
class _EnvironmentVariables(MapOf):
    """Shape of an object of texts whose names may be environment variables."""

    def read(self, node: DocumentNode, name: str, problems: list[Problem]) -> Any:
        """Reads and checks an object."""
        if isinstance(node.value, dict):
            refused = {given: reason for given in node.value if (reason := name_problem(given))}
            problems += (Problem(node.value[given].line, member(name, given), refused[given]) for given in refused)
            rest = {given: inner for given, inner in node.value.items() if given not in refused}
            node = DocumentNode(rest, node.line)
        values = super().read(node, name, problems)
        if values is not INVALID and (size := _size(values)) > MOST_BYTES:
            problems.append(Problem(node.line, name, f"must have at most {MOST_BYTES:,} bytes; it has {size:,}"))
        return values

    def json_schema(self) -> JsonSchema:
        """Returns the JSON Schema, with the pattern of the names."""
        schema: JsonObject = super().json_schema()
        forbidden = "|".join(map(re.escape, sorted(SET_BY_THE_SANDBOX | _LOADER_VARIABLES)))
        starts = "|".join(_FORBIDDEN_STARTS)
        allowed = re.compile(rf"(?!(?:{forbidden})$)(?!{starts}){_NAME.pattern}")
        return {**schema, "propertyNames": {**schema["propertyNames"], "pattern": whole_value(allowed)}}


def _size(values: Mapping[str, str | None]) -> int:
    return sum(len(name.encode()) + len((value or "").encode()) for name, value in values.items())


ENVIRONMENT_VARIABLES: Final = _EnvironmentVariables(
    Text(LONGEST_VALUE, shortest=0), most=MOST_VARIABLES, longest=LONGEST_NAME
)
