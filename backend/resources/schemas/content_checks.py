"""Checks of the JSON Schemas, expressions and Python in manifests; Python is compiled, not run."""

import symtable
import sys
from importlib.util import decode_source
from typing import Final, NamedTuple, Protocol

from backend.common.deployment_terms import CODE_BOUNDS
from backend.resources.schemas.expression_scope import Expected, Scope

# The default of the interpreter that runs agents; confined processes have a higher one.
_RECURSION_LIMIT: Final = 1_000


class CodeProblem(NamedTuple):
    """A problem of source text: its line, None for the whole text, and the reason, with what is allowed."""

    line: int | None
    reason: str


BEYOND_BOUNDS: Final = CodeProblem(None, f"must be Python that compiles within {CODE_BOUNDS}, not nested too deeply")


def code_problem(text: str | bytes, *, defines: str | None = None) -> CodeProblem | None:
    """Returns the problem of source text that is no Python, or does not define a name at its top.

    Compiling takes up to two seconds and 450 MB for each MiB, and a text may be nested so that it takes any time.
    """
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(min(limit, _RECURSION_LIMIT))
    try:
        return _problem(text, defines)
    finally:
        sys.setrecursionlimit(limit)


def _problem(text: str | bytes, defines: str | None) -> CodeProblem | None:
    try:
        compile(text, "agent.py", "exec", dont_inherit=True)
        if defines is None:
            return None
        # `symtable` takes text only; bytes may declare their encoding.
        source = text if isinstance(text, str) else decode_source(text)
        defined = symtable.symtable(source, "agent.py", "exec").lookup(defines)
    except SyntaxError as error:
        return CodeProblem(error.lineno or 1, f"must be Python: {error.msg}")
    except KeyError:
        return CodeProblem(None, f"must define {defines}(context)")
    except (RecursionError, MemoryError):
        return BEYOND_BOUNDS
    except (ValueError, OverflowError):
        return CodeProblem(None, "must be Python that compiles")
    if defined.is_assigned() or defined.is_imported():
        return None
    return CodeProblem(None, f"must define {defines}(context)")


class ContentChecks(Protocol):
    """Checks within limits of time and memory; see `backend.resources.schemas.validator.ManifestChecks`."""

    def schema_problem(self, schema: object, *, answer: bool) -> str | None:
        """Returns the problem of a schema, or None; `answer` marks the schema of a model's answer."""

    def code_problem(self, text: str | bytes, *, defines: str | None = None) -> CodeProblem | None:
        """Returns the problem of Python source that is no Python, or does not define a name at its top, or None."""

    def expression_problem(self, source: str, expected: Expected, scope: Scope) -> str | None:
        """Returns the problem of an expression that must give this kind of value, or None."""
