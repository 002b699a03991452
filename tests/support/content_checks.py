"""Checks of schemas and code of manifests without processes of their own, for texts that tests trust."""

from typing import Any

from backend.resources.schemas.content_checks import CodeProblem, code_problem
from backend.resources.schemas.expression_scope import Expected, Scope
from backend.resources.schemas.expressions import problem_of
from backend.resources.schemas.program import schema_problem
from backend.resources.schemas.signatures import Signature, signature


class UnboundedChecks:
    """The checks themselves, in this process."""

    def schema_problem(self, schema: Any, *, answer: bool) -> str | None:
        """Returns the problem of a schema, or None."""
        return schema_problem(schema, answer=answer)

    def code_problem(self, text: str | bytes, *, defines: str | None = None) -> CodeProblem | None:
        """Returns the problem of source text, or None."""
        return code_problem(text, defines=defines)

    def signature(self, text: str | bytes, function: str) -> Signature:
        return signature(text, function)

    def expression_problem(self, source: str, expected: Expected, scope: Scope) -> str | None:
        """Returns the problem of an expression, or None."""
        return problem_of(source, expected, scope)


UNBOUNDED = UnboundedChecks()
