"""Judges values by schemas, and schemas by the rules for them, each within its own bounds of time and memory."""

import threading
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any, Final

from backend.confined import ConfinedError, ConfinedPool, FailureKind
from backend.json_text import JsonText
from backend.schemas.bounds import SchemaBounds
from backend.strict_json import NotJsonError

_ADMINISTRATORS: Final = "administrators"
# What all schemas of one call may take, in terms of what one may.
_CHECKS_TOGETHER: Final = 4
# What a job does to its process is a verdict on it; that there was no process is none.
_VERDICTS: Final = frozenset(
    {FailureKind.DEADLINE, FailureKind.MEMORY, FailureKind.TOO_LARGE, FailureKind.DIED, FailureKind.FAILED}
)


class JudgeUnavailableError(OSError):
    """No process could be started for a judgement; another try may succeed."""


class SchemaJudge:
    """Thread-safe; every call waits for its judgement. The first starts a process; `close` ends them all."""

    def __init__(self, bounds: SchemaBounds | None = None) -> None:
        self._bounds = bounds or SchemaBounds()
        self._pool = ConfinedPool("backend.schemas.program", name="schemas")

    def mismatch(
        self, schema: Any, value: str, what: str, *, owner: str, halt: threading.Event | None = None
    ) -> str | None:
        """What of a value, JSON text, does not fit its schema; None where all of it fits.

        A value that cannot be judged within the bounds does not fit. `what` is what the message calls the value;
        `owner` is whose it is: owners are served round robin.

        Raises:
            ConfinedError: `halt` was set, or the judge is closed.
            JudgeUnavailableError: no process could be started.
        """
        try:
            problem = self._run("judge", {"schema": schema, "value": value, "what": what}, owner, halt)
        except ConfinedError as error:
            if error.kind not in _VERDICTS:
                raise
            return f"The {what} could not be judged by its schema within {self._bounds}."
        return None if problem is None else str(problem)

    def schema_check(self) -> Callable[..., str | None]:
        """`schema_problem` with one deadline for all schemas of a call, from now on: four times what one may take."""
        return partial(self.schema_problem, deadline=monotonic() + _CHECKS_TOGETHER * self._bounds.cpu_seconds)

    def schema_problem(self, schema: Any, *, answer: bool, deadline: float | None = None) -> str | None:
        """What is wrong with a schema of a manifest; see `rules.schema_problem`.

        Past the `deadline`, a time of `monotonic`, no schema is checked, which is a problem of each.

        Raises:
            ConfinedError: the judge is closed.
            JudgeUnavailableError: no process could be started.
        """
        if deadline is not None and monotonic() >= deadline:
            together = f"{_CHECKS_TOGETHER * self._bounds.cpu_seconds:g} seconds"
            return f"was not checked: the schemas before it took longer than the {together} that all may take together"
        try:
            problem = self._run("check", {"schema": schema, "answer": answer}, _ADMINISTRATORS, None)
        except (RecursionError, ValueError):
            return "must be JSON that is not nested too deeply"
        except ConfinedError as error:
            if error.kind not in _VERDICTS:
                raise
            return f"must be a JSON Schema that can be checked within {self._bounds}"
        return None if problem is None else str(problem)

    def normalised(self, value: str, *, owner: str, halt: threading.Event | None = None) -> JsonText:
        """A value, JSON text that a step sent, as compact text.

        Raises:
            NotJsonError: it is not strict JSON, or cannot be read within the bounds.
            ConfinedError: `halt` was set, or the judge is closed.
            JudgeUnavailableError: no process could be started.
        """
        try:
            read = self._run("normalise", {"value": value}, owner, halt)
        except ConfinedError as error:
            if error.kind not in _VERDICTS:
                raise
            raise NotJsonError(f"cannot be read within {self._bounds}") from None
        if read["problem"] is not None:
            raise NotJsonError(str(read["problem"]))
        return JsonText(read["text"])

    def member(self, value: str, name: str, *, owner: str, halt: threading.Event | None = None) -> str | None:
        """A member of a value, JSON text, that is an object, where the member is a string; raises as `mismatch`.

        None also where the value cannot be read within the bounds.
        """
        try:
            found = self._run("member", {"value": value, "name": name}, owner, halt)
        except ConfinedError as error:
            if error.kind not in _VERDICTS:
                raise
            return None
        return None if found is None else str(found)

    @property
    def pids(self) -> list[int]:
        """The processes that judge, or wait for something to judge."""
        return self._pool.pids

    def close(self) -> None:
        """Ends every process; what is being judged, or comes later, fails."""
        self._pool.close()

    def _run(self, operation: str, arguments: Any, owner: str, halt: threading.Event | None) -> Any:
        try:
            return self._pool.run(
                operation,
                arguments,
                owner=owner,
                cpu_seconds=self._bounds.cpu_seconds,
                memory_bytes=self._bounds.memory_mb * 2**20,
                halt=halt,
            )
        except ConfinedError as error:
            if error.kind is not FailureKind.UNAVAILABLE:
                raise
            raise JudgeUnavailableError(str(error)) from error
