"""Validates values by schemas, checks schemas and code of manifests, and evaluates expressions, within bounds."""

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, NamedTuple

from backend.common.deployment_terms import CODE_BOUNDS, EXPRESSION_BOUNDS, CheckBounds
from backend.common.json_text import JsonText, JsonValue, UnstorableJsonError
from backend.isolation.confined import ConfinedError, ConfinedPool, FailureKind
from backend.resources.schemas.content_checks import BEYOND_BOUNDS, CodeProblem
from backend.resources.schemas.expression_scope import Expected, ExpressionError, Scope, Values

_ADMINISTRATORS: Final = "administrators"
_LONGEST_QUOTE: Final = 100
# Further bounds for each MiB of values that an expression reads.
_READING: Final = CheckBounds(cpu_seconds=0.2, memory_mb=32)
# The time for all schemas of one call, and for all its code, as a multiple of the time for one.
_CHECKS_TOGETHER: Final = 4
# Failures that a value or schema causes, and that say that it does not pass.
_VERDICTS: Final = frozenset(
    {FailureKind.DEADLINE, FailureKind.MEMORY, FailureKind.TOO_LARGE, FailureKind.DIED, FailureKind.FAILED}
)


class ValidatorUnavailableError(OSError):
    """No process could be started for a validation; another try may succeed."""


class ValidatedForm(NamedTuple):
    """Values of a form as compact JSON text, and the problems of the values, each as name and reason.

    The name is empty for a problem of the form as a whole.
    """

    text: str
    problems: Sequence[tuple[str, str]]


class SchemaValidator:
    """Client of the processes that validate. Thread-safe; every call waits for its result.

    The first call starts a process; `close` ends them all.
    """

    def __init__(self, bounds: CheckBounds | None = None) -> None:
        self._bounds = bounds or CheckBounds()
        self._pool = ConfinedPool("backend.resources.schemas.program", name="schemas")

    def mismatch(
        self, schema: object, value: str, what: str, *, owner: str, halt: threading.Event | None = None
    ) -> str | None:
        """Returns the mismatch of a value, given as JSON text, with its schema; None if it fits.

        A value that cannot be validated within the limits does not fit. `what` names the value in the message. Owners
        are served round robin.

        Raises:
            ConfinedError: `halt` was set, or the validator is closed.
            ValidatorUnavailableError: no process could be started.
        """
        try:
            problem = self._run("validate", {"schema": schema, "value": value, "what": what}, owner, halt)
        except ConfinedError as error:
            if error.kind not in _VERDICTS:
                raise
            return f"The {what} could not be judged by its schema within {self._bounds}."
        return None if problem is None else str(problem)

    def manifest_checks(self) -> "ManifestChecks":
        """Returns the checks for the manifests of one call, with deadlines that begin now."""
        return ManifestChecks(
            self,
            schemas_until=monotonic() + _CHECKS_TOGETHER * self._bounds.cpu_seconds,
            code_until=monotonic() + _CHECKS_TOGETHER * CODE_BOUNDS.cpu_seconds,
        )

    def schema_problem(self, schema: object, *, answer: bool, deadline: float | None = None) -> str | None:
        """Returns the problem of a schema of a manifest, None if it has none; see `program.schema_problem`.

        After the `deadline`, a time of `monotonic`, no schema is checked, which is a problem too.

        Raises:
            ConfinedError: the validator is closed.
            ValidatorUnavailableError: no process could be started.
        """
        if deadline is not None and monotonic() >= deadline:
            return _unchecked("schemas", self._bounds)
        try:
            problem = self._run("check", {"schema": schema, "answer": answer}, _ADMINISTRATORS, None)
        except (RecursionError, ValueError):
            return "must be JSON that is not nested too deeply"
        except ConfinedError as error:
            if error.kind not in _VERDICTS:
                raise
            return f"must be a JSON Schema that can be checked within {self._bounds}"
        return None if problem is None else str(problem)

    def code_problem(
        self, text: str | bytes, *, defines: str | None = None, deadline: float | None = None
    ) -> CodeProblem | None:
        """Returns the problem of Python source, None if it has none; see `content_checks.code_problem`.

        Has a deadline, and raises, as `schema_problem`.
        """
        if deadline is not None and monotonic() >= deadline:
            return CodeProblem(None, _unchecked("Python files", CODE_BOUNDS))
        content = {"text": text} if isinstance(text, str) else {"text": None, "bytes": text.decode("latin-1")}
        try:
            found = self._run("compile", {**content, "defines": defines}, _ADMINISTRATORS, None, CODE_BOUNDS)
        except ConfinedError as error:
            if error.kind not in _VERDICTS:
                raise
            return BEYOND_BOUNDS
        return None if found is None else CodeProblem(*found)

    def expression_problem(
        self, source: str, expected: Expected, scope: Scope, *, deadline: float | None = None
    ) -> str | None:
        """Returns the problem of an expression by the types in its scope, None if it has none.

        Has a deadline, and raises, as `schema_problem`.
        """
        if deadline is not None and monotonic() >= deadline:
            return _unchecked("expressions", self._bounds)
        arguments = {"source": source, "expected": expected, "scope": scope}
        try:
            problem = self._run("check_expression", arguments, _ADMINISTRATORS, None, EXPRESSION_BOUNDS)
        except ConfinedError as error:
            if error.kind not in _VERDICTS:
                raise
            return f"must be a CEL expression that can be checked within {EXPRESSION_BOUNDS}"
        return None if problem is None else str(problem)

    def evaluate(
        self,
        expressions: Sequence[tuple[str, Expected]],
        scope: Scope,
        values: Values,
        needs: Mapping[str, str],
        *,
        owner: str,
        halt: threading.Event | None = None,
    ) -> list[JsonValue]:
        """Returns the values of expressions; `needs` are JSON texts by step, in place of `values["needs"]`.

        Raises:
            ExpressionError: an expression gave no value, another kind of value, or exceeded its bounds.
            ConfinedError: `halt` was set, or the validator is closed.
            ValidatorUnavailableError: no process could be started.
        """
        given: list[JsonValue] = self._evaluated("evaluate", expressions, scope, values, needs, owner, halt)
        return given

    def items(
        self,
        source: str,
        scope: Scope,
        values: Values,
        needs: Mapping[str, str],
        *,
        most: int,
        most_bytes: int,
        owner: str,
        halt: threading.Event | None = None,
    ) -> list[str]:
        """Returns the items of a list expression, each as JSON text; `needs` as for `evaluate`.

        Raises:
            ExpressionError: the expression gave no list, more than `most` items, or more than `most_bytes` of JSON.
            ConfinedError, ValidatorUnavailableError: as `evaluate`.
        """
        expressions = [(source, Expected.LIST)]
        items: list[str] = self._evaluated(
            "items", expressions, scope, values, needs, owner, halt, most=most, most_bytes=most_bytes
        )
        return items

    def _evaluated(
        self,
        operation: str,
        expressions: Sequence[tuple[str, Expected]],
        scope: Scope,
        values: Values,
        needs: Mapping[str, str],
        owner: str,
        halt: threading.Event | None,
        **more: int,
    ) -> Any:
        sources = " ".join(source for source, _ in expressions)
        seen = {step: text for step, text in needs.items() if step in sources}
        mebibytes = sum(map(len, seen.values())) / 2**20
        bounds = CheckBounds(
            len(expressions) * EXPRESSION_BOUNDS.cpu_seconds + mebibytes * _READING.cpu_seconds,
            EXPRESSION_BOUNDS.memory_mb + math.ceil(mebibytes) * _READING.memory_mb,
        )
        arguments = {"expressions": expressions, "scope": scope, "values": values, "needs": seen, **more}
        try:
            return self._run(operation, arguments, owner, halt, bounds)
        except ConfinedError as error:
            if error.kind not in _VERDICTS:
                raise
            if error.kind is FailureKind.FAILED:
                raise ExpressionError(str(error)) from error
            shown = " ".join(sources.split())[:_LONGEST_QUOTE]
            raise ExpressionError(f"The expression `{shown}` gave no value within {EXPRESSION_BOUNDS}.") from error

    def normalised(self, value: str, *, owner: str, halt: threading.Event | None = None) -> JsonText:
        """Returns JSON text of a step as compact JSON text.

        Raises:
            UnstorableJsonError: the text is not strict JSON, or cannot be read within the limits.
            ConfinedError: `halt` was set, or the validator is closed.
            ValidatorUnavailableError: no process could be started.
        """
        try:
            read = self._run("normalise", {"value": value}, owner, halt)
        except ConfinedError as error:
            if error.kind not in _VERDICTS:
                raise
            raise UnstorableJsonError(f"cannot be read within {self._bounds}") from None
        if read["problem"] is not None:
            raise UnstorableJsonError(str(read["problem"]))
        return JsonText(read["text"])

    def member(self, value: str, name: str, *, owner: str, halt: threading.Event | None = None) -> str | None:
        """Returns a member of a JSON object, given as text, if the member is a string; raises as `mismatch`.

        None also if the text cannot be read within the limits.
        """
        try:
            found = self._run("member", {"value": value, "name": name}, owner, halt)
        except ConfinedError as error:
            if error.kind not in _VERDICTS:
                raise
            return None
        return None if found is None else str(found)

    def form(self, schema: object, value: str, *, owner: str) -> "ValidatedForm":
        """Validates the values of a form, given as JSON text.

        Raises:
            ConfinedError: the validator is closed.
            ValidatorUnavailableError: no process could be started.
        """
        try:
            result = self._run("validate_form", {"schema": schema, "value": value}, owner, None)
        except ConfinedError as error:
            if error.kind not in _VERDICTS:
                raise
            return ValidatedForm("", [("", f"must be values that can be judged within {self._bounds}")])
        return ValidatedForm(result["text"] or "", [(name, reason) for name, reason in result["problems"]])

    @property
    def pids(self) -> list[int]:
        """Ids of the running processes, busy or idle."""
        return self._pool.pids

    def close(self) -> None:
        """Ends every process; running and later validations fail."""
        self._pool.close()

    def _run(
        self,
        operation: str,
        arguments: object,
        owner: str,
        halt: threading.Event | None,
        bounds: CheckBounds | None = None,
    ) -> Any:
        bounds = bounds or self._bounds
        try:
            return self._pool.run(
                operation,
                arguments,
                owner=owner,
                cpu_seconds=bounds.cpu_seconds,
                memory_bytes=bounds.memory_mb * 2**20,
                halt=halt,
            )
        except ConfinedError as error:
            if error.kind is not FailureKind.UNAVAILABLE:
                raise
            raise ValidatorUnavailableError(str(error)) from error


@dataclass(frozen=True, slots=True)
class ManifestChecks:
    """Checks of the schemas and the code of one call, each kind with a common deadline by `monotonic`."""

    validator: SchemaValidator
    schemas_until: float
    code_until: float

    def schema_problem(self, schema: object, *, answer: bool) -> str | None:
        """Returns the problem of a schema, or None; see `SchemaValidator.schema_problem`."""
        return self.validator.schema_problem(schema, answer=answer, deadline=self.schemas_until)

    def code_problem(self, text: str | bytes, *, defines: str | None = None) -> CodeProblem | None:
        """Returns the problem of Python source, or None; see `SchemaValidator.code_problem`."""
        return self.validator.code_problem(text, defines=defines, deadline=self.code_until)

    def expression_problem(self, source: str, expected: Expected, scope: Scope) -> str | None:
        """Returns the problem of an expression, or None; see `SchemaValidator.expression_problem`."""
        return self.validator.expression_problem(source, expected, scope, deadline=self.schemas_until)


def _unchecked(what: str, bounds: CheckBounds) -> str:
    together = f"{_CHECKS_TOGETHER * bounds.cpu_seconds:g} seconds"
    return f"was not checked: the {what} before it took longer than the {together} that all may take together"
