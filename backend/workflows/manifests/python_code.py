"""Checks of the Python code of agents, which is compiled, not run, to report syntax errors with their line."""

import symtable
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import decode_source
from typing import Any, NamedTuple

from backend.workflows.manifests.nodes import Node, Problem
from backend.workflows.manifests.shapes import INVALID, JsonSchema

ENTRY = "run"
LARGEST_MODULE_BYTES = 2**20
"""Compiling stops every other call of the process, for two seconds at this size."""


class CodeProblem(NamedTuple):
    """A problem of source text: its line, None where it is that of the whole text, and what is allowed."""

    line: int | None
    reason: str


@dataclass(frozen=True)
class PythonCode:
    """Python source text that defines `run`."""

    def read(self, node: Node, name: str, problems: list[Problem]) -> Any:
        """Reads source text; in a `|` block the line of a syntax error is that in the file."""
        if not isinstance(node.value, str):
            problems.append(Problem(node.line, name, "must be text"))
            return INVALID
        found = code_problem(node.value, defines=ENTRY)
        if found is None:
            return node.value
        inside = found.line if node.literal and found.line is not None else 0
        problems.append(Problem(node.line + inside, name, found.reason))
        return INVALID

    def json_schema(self) -> JsonSchema:
        """Returns the type."""
        return {"type": "string"}


def code_problem(text: str | bytes, *, defines: str | None = None) -> CodeProblem | None:
    """Returns the problem of source text that is no Python, or does not define a name at its top.

    Bytes are a file, and have a bound of their own; text is bounded with the definition that it is in.
    """
    if isinstance(text, bytes) and len(text) > LARGEST_MODULE_BYTES:
        return CodeProblem(None, f"must have at most {LARGEST_MODULE_BYTES:,} bytes of Python")
    try:
        compile(text, "agent.py", "exec", dont_inherit=True)
        if defines is None:
            return None
        # A table of symbols is made of text alone; bytes may declare their encoding.
        defined = symtable.symtable(_decoded(text), "agent.py", "exec").lookup(defines)
    except SyntaxError as error:
        return CodeProblem(error.lineno or 1, f"must be Python: {error.msg}")
    except KeyError:
        return CodeProblem(None, f"must define {defines}(context)")
    except (ValueError, RecursionError, MemoryError, OverflowError):
        return CodeProblem(None, "must be Python that compiles")
    if defined.is_assigned() or defined.is_imported():
        return None
    return CodeProblem(None, f"must define {defines}(context)")


def module_file(files: Mapping[str, bytes], module: str) -> str | None:
    """Returns the path of a module's file, or None."""
    place = module.replace(".", "/")
    return next((path for path in (f"{place}/__init__.py", f"{place}.py") if path in files), None)


def _decoded(text: str | bytes) -> str:
    return text if isinstance(text, str) else decode_source(text)
