"""The field with the code of a Python agent, which is compiled, not run, to report syntax errors with their line."""

import symtable
from dataclasses import dataclass
from typing import Any

from backend.workflows.manifests.nodes import Node, Problem
from backend.workflows.manifests.shapes import INVALID

_ENTRY = "run"


@dataclass(frozen=True)
class PythonCode:
    """Python source text that defines `run`."""

    def read(self, node: Node, name: str, problems: list[Problem]) -> Any:
        """Reads source text; in a `|` block the line of a syntax error is that in the file."""
        if not isinstance(node.value, str):
            problems.append(Problem(node.line, name, "must be text"))
            return INVALID
        try:
            compile(node.value, name, "exec", dont_inherit=True)
            defined = symtable.symtable(node.value, name, "exec").lookup(_ENTRY)
        except SyntaxError as error:
            line = node.line + (error.lineno or 1) if node.literal else node.line
            problems.append(Problem(line, name, f"must be Python: {error.msg}"))
        except KeyError:
            problems.append(Problem(node.line, name, f"must define {_ENTRY}(context)"))
        except (ValueError, RecursionError, MemoryError, OverflowError):
            problems.append(Problem(node.line, name, "must be Python that compiles"))
        else:
            if defined.is_assigned() or defined.is_imported():
                return node.value
            problems.append(Problem(node.line, name, f"must define {_ENTRY}(context)"))
        return INVALID
