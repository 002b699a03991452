"""Sweeps for personal data in confined processes, each with its own limits of processor time and memory.

Sweeps of several API keys run at once. Only a process that calls a language model has network access, and no
secret but that model's.
"""

import shutil
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from time import perf_counter
from typing import Any, Final, NamedTuple

from backend.common import json_text, metrics
from backend.common.json_text import JsonMapping, JsonObject, JsonText
from backend.common.retry import RetryPolicy
from backend.common.secrets import SecretError
from backend.isolation.confined import ConfinedError, ConfinedPool, FailureKind
from backend.resources.models import MODEL_RETRY, Models
from backend.settings import ModelProvider, RedactionLimits
from redaction.counts import Counts
from redaction.entity_types import ENTITY_TYPES
from redaction.formats.outcome import FileOutcome
from redaction.formats.preview import FilePreview
from redaction.policy import LOCAL

Policy = JsonMapping

_PROGRAM: Final = "backend.resources.redaction.program"
_KINDS: Final = frozenset({"off", "text", "csv", "json", "xml", "mail", "office", "parquet", "zip", "binary"})
OVER_LIMIT: Final = "over_limit"
"""Reason of a file that is withheld because its sweep exceeded a limit."""
SWEEP_FAILED: Final = "sweep_failed"
"""Reason of a file that is withheld because the program failed at it."""
_LIMITS: Final = frozenset({FailureKind.DEADLINE, FailureKind.MEMORY, FailureKind.TOO_LARGE, FailureKind.DIED})
# A model may take a minute to answer, and the retries another one.
_WALL_SECONDS_PER_CALL: Final = 180.0
_PROCESSOR_FILES: Final = tuple(
    path for path in (Path("/proc/cpuinfo"), Path("/sys/devices/system/cpu")) if path.exists()
)
"""Files about the processors that onnxruntime reads when it is loaded; without them it ends its process."""
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


class RedactionError(Exception):
    """A sweep failed, and its results may not be used; the text is for a person.

    `over_limit` says that it exceeded a limit of time, memory or size; `permanent`, that a retry is useless, for that
    reason or because the program failed at the content. `model_calls` is the number of calls to a model before the
    failure.
    """

    def __init__(self, reason: str, model_calls: int = 0, *, over_limit: bool = False, permanent: bool = False) -> None:
        super().__init__(reason)
        self.model_calls = model_calls
        self.over_limit = over_limit
        self.permanent = permanent or over_limit


class SweptText(NamedTuple):
    """A swept value as JSON text, and its requested member, if the member is a string."""

    text: JsonText
    member: str | None


class SweptLines(NamedTuple):
    """Swept lines of a growing text, and the lines that the sweep of the next lines has to read as context."""

    text: str
    above: str


class ConfinedRedactor:
    """Client of the processes that sweep. Thread-safe; every call blocks until its sweep has ended.

    `models` makes the models that sweeps may ask; `model_retry` says how a failed call is repeated. `scratch` is a
    folder for copies of what is being swept. A sweep ends soon after its `halt` is set; `owner` is the API key whose
    run it is for, and owners are served round robin.
    """

    def __init__(
        self,
        models: Models,
        model_retry: RetryPolicy = MODEL_RETRY,
        *,
        scratch: Path,
        limits: RedactionLimits | None = None,
    ) -> None:
        self._models = models
        self._model_retry = model_retry
        self._limits = limits or RedactionLimits()
        self.scratch = scratch
        """The folder of copies of files that are being swept."""
        self._lock = threading.Lock()
        self._pools: dict[str | None, ConfinedPool] = {}
        self._closed = False
        # Copies left by a process that was killed.
        shutil.rmtree(scratch, ignore_errors=True)

    def values(
        self, policy: Policy, values: Sequence[Any], halt: threading.Event | None = None, *, owner: str
    ) -> tuple[list[Any], Counts]:
        """Sweeps JSON values.

        Raises:
            RedactionError: the sweep failed.
        """
        size_bytes = len(json_text.write(values))
        answer, counts = self._run("values", policy, {"values": values}, size_bytes, f"{owner}/values", halt)
        swept = answer["swept"]
        return list(values) if swept is None and policy["mode"] != "redact" else _list_of(swept, len(values)), counts

    def text(
        self,
        policy: Policy,
        text: str,
        halt: threading.Event | None = None,
        *,
        owner: str,
        member: str | None = None,
    ) -> tuple[SweptText, Counts]:
        """Sweeps a value in the form of JSON text; `member` names a string in it to return too. Raises as `values`."""
        given = {"text": text, "member": member}
        answer, counts = self._run("text", policy, given, len(text), f"{owner}/values", halt)
        swept, found = answer.get("swept"), answer.get("member")
        if swept is None and policy["mode"] != "redact":
            swept = text
        if not isinstance(swept, str) or not (found is None or isinstance(found, str)):
            raise _malformed()
        return SweptText(JsonText(swept), found), counts

    def lines(
        self, policy: Policy, above: str, text: str, halt: threading.Event | None = None, *, owner: str
    ) -> tuple[SweptLines, Counts]:
        """Sweeps whole lines of a text that grows.

        `above` is "" for the first lines, then the `above` returned with the lines before. Raises as `values`.
        """
        given = {"above": above, "text": text}
        answer, counts = self._run("lines", policy, given, len(above) + len(text), f"{owner}/values", halt)
        swept, context_length = answer.get("swept"), answer.get("kept")
        whole = above + text
        if not isinstance(swept, str) or not isinstance(context_length, int) or not 0 <= context_length <= len(whole):
            raise _malformed()
        return SweptLines(swept, whole[len(whole) - context_length :]), counts

    def names(
        self, policy: Policy, names: Sequence[str], halt: threading.Event | None = None, *, owner: str
    ) -> tuple[list[str], Counts]:
        """Sweeps names of files into distinct names; asks no model. Raises as `values`."""
        policy = {**policy, "model": None}
        size_bytes = sum(map(len, names))
        answer, counts = self._run("names", policy, {"names": names}, size_bytes, f"{owner}/values", halt)
        swept = _list_of(answer["swept"], len(names))
        if len(set(map(str, swept))) != len(swept) or not all(map(_is_relative_path, swept)):
            raise _malformed()
        return swept, counts

    def file(
        self,
        policy: Policy,
        source: Path,
        target: Path,
        name: str,
        halt: threading.Event | None = None,
        *,
        owner: str,
    ) -> tuple[FileOutcome, Counts]:
        """Sweeps a file whose name is `name`; in mode `redact` the swept copy is written to `target`.

        A file whose sweep exceeds a limit is withheld with the reason OVER_LIMIT; a file at which the program fails,
        with SWEEP_FAILED. Raises as `values`.
        """
        size = source.stat().st_size
        partial = target.with_name(target.name + ".partial")
        try:
            with source.open("rb") as given, partial.open("wb") as taken:
                descriptors = given.fileno(), taken.fileno()
                answer, counts = self._run("file", policy, {"name": name}, size, f"{owner}/files", halt, descriptors)
            outcome = _outcome(answer)
            if not outcome.withheld and policy["mode"] == "redact":
                partial.replace(target)
        except RedactionError as error:
            if not error.permanent:
                raise
            redacts = policy["mode"] == "redact"
            reason = OVER_LIMIT if error.over_limit else SWEEP_FAILED
            outcome = FileOutcome("unknown", withheld=redacts, reason=reason)
            counts = Counts(
                files=1, withheld_files=int(redacts), unsearched_files=int(not redacts), model_calls=error.model_calls
            )
        finally:
            partial.unlink(missing_ok=True)
        metrics.REDACTION_BYTES.add_many(size)
        return outcome, counts

    def preview(
        self,
        policy: Policy,
        source: Path,
        name: str,
        halt: threading.Event | None = None,
        *,
        owner: str,
        rows: int,
        head: bool = False,
        first: int | None = None,
    ) -> tuple[FilePreview | str, Counts]:
        """Returns the beginning of a file for a person, after a sweep of the whole file where the policy redacts.

        The preview of a table has the first `rows`, at most `MOST_ROWS` of `redaction.formats.preview`; with `first`
        the rows from there on, and the number of all, also of a list in JSON. With `head` the source holds only the
        first bytes of the file, cut anywhere, and nothing is swept. For a file that cannot be swept, or whose sweep
        exceeds a limit, returns the reason. Raises as `values`.
        """
        try:
            with source.open("rb") as given:
                size, descriptors = source.stat().st_size, (given.fileno(),)
                given_job = {"name": name, "rows": rows, "head": head, "first": first}
                answer, counts = self._run("preview", policy, given_job, size, f"{owner}/files", halt, descriptors)
        except RedactionError as error:
            if not error.permanent:
                raise
            return OVER_LIMIT if error.over_limit else SWEEP_FAILED, Counts(model_calls=error.model_calls)
        reason = answer.get("reason")
        preview = reason if isinstance(reason, str) else FilePreview.from_dict(answer.get("preview"))
        if preview is None:
            raise _malformed()
        return preview, counts

    @property
    def expanded_mb(self) -> int:
        """Megabytes that a zip or parquet file may expand to."""
        return self._limits.expanded_mb

    def limit_of(self, size_bytes: int) -> str:
        """Returns the limits of a sweep of `size_bytes` bytes as text."""
        return self._limits.in_words(size_bytes)

    @property
    def pids(self) -> list[int]:
        """Ids of the running processes, busy or idle."""
        with self._lock:
            return [pid for pool in self._pools.values() for pid in pool.pids]

    def close(self) -> None:
        """Ends the processes; running and later sweeps fail."""
        with self._lock:
            self._closed = True
            pools = list(self._pools.values())
        for pool in pools:
            pool.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _run(
        self,
        operation: str,
        policy: Policy,
        given: JsonObject,
        size_bytes: int,
        owner: str,
        halt: threading.Event | None,
        descriptors: Sequence[int] = (),
    ) -> tuple[JsonObject, Counts]:
        asks = policy["model"] is not None and policy["max_model_calls"] > 0
        arguments = {"policy": dict(policy), "model": self._access(policy["model"]) if asks else None, **given}
        local = asks and policy["model"] == LOCAL
        calls = _WALL_SECONDS_PER_CALL * policy["max_model_calls"] if asks and not local else 0.0
        began = perf_counter()
        try:
            answer = self._pool(policy["model"] if asks else None).run(
                operation,
                arguments,
                owner=owner,
                cpu_seconds=self._limits.cpu_seconds(size_bytes) + (self._limits.model_seconds if local else 0.0),
                memory_bytes=self._limits.memory_mb * 2**20,
                descriptors=descriptors,
                halt=halt,
                extra_wall_seconds=calls,
            )
            return _dictionary(answer), _counts(answer)
        except (ConfinedError, RedactionError) as error:
            if halt is None or not halt.is_set():
                metrics.REDACTION_FAILURES.add(operation)
            raise (_redaction_error(error) if isinstance(error, ConfinedError) else error) from None
        finally:
            metrics.REDACTION_SECONDS.observe(perf_counter() - began, operation)

    def _pool(self, model: str | None) -> ConfinedPool:
        with self._lock:
            if self._closed:
                raise RedactionError("the service ends")
            if model not in self._pools:
                number = len(self._pools)
                self._pools[model] = ConfinedPool(
                    _PROGRAM,
                    name="redaction" if model is None else "redaction-model",
                    size=self._limits.processes,
                    network=model not in {None, LOCAL},
                    environment={} if model in {None, LOCAL} else self._proxies(),
                    readable=_PROCESSOR_FILES if model == LOCAL else (),
                    configuration={
                        "model_attempts": self._model_retry.attempts,
                        "model_backoff": asdict(self._model_retry.backoff),
                        "expanded_bytes": self._limits.expanded_mb * 1_000_000,
                        "model_seconds": self._limits.model_seconds,
                    },
                    scratch=self.scratch / str(number),
                    spare=model is None,
                )
            return self._pools[model]

    def _access(self, model: str) -> dict[str, str | None]:
        """Returns the address and key that a process needs to ask this model, and no other key."""
        provider = self._models.providers.get(model.partition(":")[0], ModelProvider())
        try:
            key = None if provider.api_key is None else self._models.secrets.get(provider.api_key)
        except SecretError as error:
            raise RedactionError(str(error)) from None
        return {"api_key": key, "base_url": provider.base_url}

    def _proxies(self) -> dict[str, str]:
        environment = self._models.secrets.environment
        names = [spelling for name in _PROXIES for spelling in (name, name.lower())]
        return {name: environment[name] for name in names if name in environment}


def _redaction_error(error: ConfinedError) -> RedactionError:
    data = error.data if isinstance(error.data, dict) else {}
    calls = data.get("model_calls")
    reason = {
        FailureKind.HALTED: "the sweep was ended",
        FailureKind.DIED: "the process that sweeps died",
        FailureKind.MEMORY: "it needs more memory than a sweep may have",
    }.get(error.kind, str(error))
    return RedactionError(
        reason,
        calls if isinstance(calls, int) else 0,
        over_limit=error.kind in _LIMITS,
        permanent=error.kind is FailureKind.FAILED and data.get("retry") is not True,
    )


# Answers of processes are untrusted, because these read untrusted content.


def _malformed() -> RedactionError:
    return RedactionError("the process that sweeps gave a malformed answer", over_limit=True)


def _dictionary(answer: object) -> JsonObject:
    if not isinstance(answer, dict):
        raise _malformed()
    return answer


def _list_of(swept: object, count: int) -> list[Any]:
    if not isinstance(swept, list) or len(swept) != count:
        raise _malformed()
    return swept


def _counts(answer: JsonObject) -> Counts:
    with suppress(KeyError, TypeError, AttributeError, ValueError):
        counts = Counts.from_dict(answer["counts"])
        numbers = {name: value for name, value in counts.as_dict().items() if name != "categories"}
        if counts.categories.keys() <= ENTITY_TYPES and all(
            type(number) is int and number >= 0 for number in (*numbers.values(), *counts.categories.values())
        ):
            return counts
    raise _malformed()


def _outcome(answer: JsonObject) -> FileOutcome:
    match answer:
        case {"kind": str(kind), "values": int(values), "withheld": bool(withheld), "reason": str() | None as reason}:
            if kind in _KINDS and values >= 0:
                return FileOutcome(kind, values, withheld, reason)
    raise _malformed()


def _is_relative_path(name: object) -> bool:
    if not isinstance(name, str) or not name or "\0" in name:
        return False
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts
