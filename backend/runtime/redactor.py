"""Sweeps in processes of their own: recognizers keep a processor busy, and hold much more memory than the service.

There is one for values, which wait for nothing long, one for files, and one for whatever asks a model. Each is started
at its first sweep, and again after it died; it ends with this one.
"""

import gc
import importlib
import logging
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Final, TypeVar

from backend import metrics
from backend.runtime.model_recognizer import PAUSES, AskedModel, ModelFailedError
from backend.runtime.models import Models, ModelUnusableError
from backend.runtime.redaction import Counts, FileOutcome, RedactionEngine
from backend.runtime.redaction_worker import RedactionError, Worker

T = TypeVar("T")

Policy = Mapping[str, Any]


class Redactor:
    """Hands sweeps to the processes. Thread-safe; every call waits for its sweep.

    `models` are those it may ask, with `pauses` between the tries where one fails. A sweep ends soon after its `halt`
    is set.
    """

    def __init__(self, models: Models, pauses: Sequence[float] = PAUSES) -> None:
        self._values, self._files, self._asking = (Worker(_begin, models, pauses) for _ in range(3))

    def values(
        self, policy: Policy, values: Sequence[Any], halt: threading.Event | None = None
    ) -> tuple[list[Any], Counts]:
        """Sweeps JSON values.

        Raises:
            RedactionError: the sweep could not be carried out.
        """
        return self._do(self._values, _sweep_values, policy, values, halt)

    def names(
        self, policy: Policy, names: Sequence[str], halt: threading.Event | None = None
    ) -> tuple[list[str], Counts]:
        """Sweeps names of files, each into another than the rest; no model is asked. Raises as `values`."""
        return self._do(self._values, _sweep_names, {**policy, "model": None}, names, halt)

    def file(
        self, policy: Policy, source: Path, target: Path, name: str, halt: threading.Event | None = None
    ) -> tuple[FileOutcome, Counts]:
        """Sweeps a file that is called `name`; in mode `redact` its swept copy goes to `target`. Raises as `values`."""
        found = self._do(self._files, _sweep_file, policy, (source, target, name), halt)
        metrics.REDACTION_BYTES.add_many(source.stat().st_size)
        return found

    @property
    def processes(self) -> list[Any]:
        """The processes that sweep now."""
        return [process for worker in self._workers for process in worker.processes]

    def close(self) -> None:
        """Ends the processes for good; what they still work on fails, and so does whatever comes."""
        for worker in self._workers:
            worker.close()

    @property
    def _workers(self) -> tuple[Worker, ...]:
        return self._values, self._files, self._asking

    def _do(
        self,
        worker: Worker,
        sweep: Callable[[RedactionEngine, Any], T],
        policy: Policy,
        what: Any,
        halt: threading.Event | None,
    ) -> T:
        if policy["model"] is not None and policy["max_model_calls"]:
            worker = self._asking
        kind, began = _KINDS[sweep], perf_counter()
        try:
            return worker.do(partial(_sweep, sweep), dict(policy), what, halt=halt)
        except RedactionError:
            if halt is None or not halt.is_set():
                metrics.REDACTION_FAILURES.add(kind)
            raise
        finally:
            metrics.REDACTION_SECONDS.observe(perf_counter() - began, kind)


_models: Models
_pauses: Sequence[float]
"""In a process: what it may ask, and how patiently."""


def _begin(models: Models, pauses: Sequence[float]) -> None:
    global _models, _pauses
    _models, _pauses = models, pauses
    # Nobody reads what libraries say of a sweep, and they may quote what is swept.
    logging.getLogger().addHandler(logging.NullHandler())
    warnings.simplefilter("ignore")
    # Presidio and spaCy leave a hundred thousand objects, which no collection of garbage need look at again.
    importlib.import_module("backend.runtime.redaction.finder")
    gc.freeze()


def _sweep(sweep: Callable[[RedactionEngine, Any], T], policy: Policy, what: Any) -> T:
    """Runs in a process. Whatever is raised there, only words that quote nothing leave it."""
    model = None if policy["model"] is None else AskedModel(_models, policy["model"], _pauses)
    engine = RedactionEngine(policy, model)
    try:
        return sweep(engine, what)
    except Exception as error:  # noqa: BLE001 - as said
        raise RedactionError(_reason(error), engine.counts["model_calls"]) from None


def _reason(error: Exception) -> str:
    match error:
        case ModelUnusableError() | ModelFailedError():
            return str(error)
        case MemoryError():
            return "it needs more memory than a sweep may have"
        case OSError(strerror=str(reason)):
            return reason
    return f"an unexpected failure ({type(error).__name__})"


def _sweep_values(engine: RedactionEngine, values: Sequence[Any]) -> tuple[list[Any], Counts]:
    return [engine.sweep_value(value) for value in values], Counts.from_dict(engine.counts)


def _sweep_names(engine: RedactionEngine, names: Sequence[str]) -> tuple[list[str], Counts]:
    return [engine.sweep_name(name) for name in names], Counts.from_dict(engine.counts)


def _sweep_file(engine: RedactionEngine, what: tuple[Path, Path, str]) -> tuple[FileOutcome, Counts]:
    return engine.sweep_file(*what), Counts.from_dict(engine.counts)


_KINDS: Final[Mapping[Callable[..., Any], str]] = {_sweep_values: "values", _sweep_names: "names", _sweep_file: "file"}
