"""Sweeps in a process of its own: recognizers keep a processor busy, and hold much more memory than the service.

The process is started at the first sweep, and again after it died; it ends with this one.
"""

import gc
import importlib
import multiprocessing
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, TypeVar

from backend.runtime.model_recognizer import AskedModel
from backend.runtime.models import Models
from backend.runtime.redaction import Counts, Engine, FileOutcome

T = TypeVar("T")

Policy = Mapping[str, Any]


class RedactionError(Exception):
    """A sweep could not be carried out; nothing of it may be used, and it may succeed when tried again."""


class Redactor:
    """Hands sweeps to the process. Thread-safe; every call waits for its sweep. `models` are those it may ask."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None
        self._closed = False

    def values(self, policy: Policy, values: Sequence[Any]) -> tuple[list[Any], Counts]:
        """Sweeps JSON values.

        Raises:
            RedactionError: the sweep could not be carried out.
        """
        return self._do(_sweep_values, policy, values)

    def names(self, policy: Policy, names: Sequence[str]) -> tuple[list[str], Counts]:
        """Sweeps names of files, each into another than the rest. Raises as `values`."""
        return self._do(_sweep_names, policy, names)

    def file(self, policy: Policy, source: Path, target: Path, name: str) -> tuple[FileOutcome, Counts]:
        """Sweeps a file that is called `name`; in mode `redact` its swept copy goes to `target`. Raises as `values`."""
        return self._do(_sweep_file, policy, (source, target, name))

    @property
    def processes(self) -> list[Any]:
        """The processes that sweep now."""
        with self._lock:
            return [] if self._pool is None else _processes(self._pool)

    def close(self) -> None:
        """Ends the process for good; what it still works on fails, and so does whatever comes."""
        with self._lock:
            self._closed = True
            pool, self._pool = self._pool, None
        if pool is not None:
            for process in _processes(pool):
                process.kill()
            pool.shutdown(wait=True, cancel_futures=True)

    def _do(self, sweep: Callable[[Engine, Any], T], policy: Policy, what: Any) -> T:
        pool = self._started()
        try:
            return pool.submit(_sweep, sweep, dict(policy), what).result()
        except BrokenProcessPool as error:
            with self._lock:
                if self._pool is pool:
                    self._pool = None
            pool.shutdown(wait=False)
            raise RedactionError("the process that sweeps died") from error
        except Exception as error:  # noqa: BLE001 - whatever it was, it may quote what was swept
            raise RedactionError(type(error).__name__) from None

    def _started(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._closed:
                raise RedactionError("the service ends")
            if self._pool is None:
                self._pool = ProcessPoolExecutor(
                    1,
                    mp_context=multiprocessing.get_context("spawn"),
                    initializer=_begin,
                    initargs=(self._models,),
                )
            return self._pool


_models: Models
"""In the process: what it may ask."""


def _processes(pool: ProcessPoolExecutor) -> list[Any]:
    # There is no public way to end one early.
    return list(pool._processes.values())  # noqa: SLF001


def _begin(models: Models) -> None:
    global _models  # noqa: PLW0603 - a process of a pool has no other place for what it is given once
    _models = models
    _end_with_parent()
    # Presidio and spaCy leave a hundred thousand objects, which no collection of garbage need look at again.
    importlib.import_module("backend.runtime.redaction.finder")
    gc.freeze()


def _end_with_parent() -> None:
    """The service may be killed at any moment; its sweep must not go on."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _sweep(sweep: Callable[[Engine, Any], T], policy: Policy, what: Any) -> T:
    """Runs in the process."""
    model = None if policy["model"] is None else AskedModel(_models, policy["model"])
    return sweep(Engine(policy, model), what)


def _sweep_values(engine: Engine, values: Sequence[Any]) -> tuple[list[Any], Counts]:
    return [engine.sweep_value(value) for value in values], Counts.from_dict(engine.counts)


def _sweep_names(engine: Engine, names: Sequence[str]) -> tuple[list[str], Counts]:
    return [engine.sweep_name(name) for name in names], Counts.from_dict(engine.counts)


def _sweep_file(engine: Engine, what: tuple[Path, Path, str]) -> tuple[FileOutcome, Counts]:
    return engine.sweep_file(*what), Counts.from_dict(engine.counts)
