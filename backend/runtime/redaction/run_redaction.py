"""The sweeps of a run in progress: of inputs, of what steps hand on, and of messages (docs/redaction.md)."""

import shutil
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeVar

from backend.json_text import JsonText
from backend.redaction.counts import Counts
from backend.redaction.process.redactor import RedactionError, Redactor, SweptLines
from backend.runtime.redaction.stages import OUTPUTS, STEPS
from backend.runtime.redaction.sweep_warnings import sweep_warning
from telemetry import tracing

T = TypeVar("T")


class RunRedaction:
    """Sweeps by one run's policy, which is not off. Thread-safe; every sweep blocks, and raises RedactionError.

    `calls_made` is how often the run's model was called before, `owner` the run's API key. A sweep ends soon after its
    `halt` is set.
    """

    def __init__(self, redactor: Redactor, policy: Mapping[str, Any], calls_made: int, owner: str) -> None:
        self._redactor = redactor
        self._owner = owner
        self._warnings: list[str] = []
        self._policy = policy
        self._calls_left = max(0, policy["max_model_calls"] - calls_made)
        # Each sweep may make all the calls that are left, so there is one at a time.
        self._asking = nullcontext() if policy["model"] is None else threading.Lock()
        self._unrecorded_calls = 0
        self._lock = threading.Lock()

    def covers(self, stage: str) -> bool:
        """Returns whether the policy names the stage."""
        return stage in self._policy["stages"]

    @property
    def message_stage(self) -> str | None:
        """The stage that sweeps messages of steps, which readers see while the run goes on; None for no stage."""
        return next((stage for stage in (STEPS, OUTPUTS) if self.covers(stage)), None)

    def value(self, value: Any, halt: threading.Event | None = None) -> tuple[Any, Counts]:
        """Sweeps a JSON value; returns `JsonText` for one that is."""
        if isinstance(value, JsonText):
            swept_text, counts = self._counted(
                lambda policy: self._redactor.text(policy, value, halt, owner=self._owner)
            )
            return swept_text.text, counts
        (swept,), counts = self._counted(lambda policy: self._redactor.values(policy, [value], halt, owner=self._owner))
        return swept, counts

    @property
    def redacts(self) -> bool:
        """Whether the policy replaces what it finds."""
        return bool(self._policy["mode"] == "redact")

    @property
    def redacts_outputs(self) -> bool:
        """Whether swept copies take the place of the run's outputs."""
        return self.redacts and self.covers(OUTPUTS)

    @property
    def asks_a_model(self) -> bool:
        """Whether the policy has a model search too."""
        return self._policy["model"] is not None

    def lines(self, above: str, text: str, halt: threading.Event | None = None) -> tuple[SweptLines, Counts]:
        """Sweeps whole lines of a text that grows; see `Redactor.lines`."""
        return self._counted(lambda policy: self._redactor.lines(policy, above, text, halt, owner=self._owner))

    def folder(self, folder: Path, halt: threading.Event | None = None) -> Counts:
        """Sweeps every file below a folder in place, names included; a file that cannot be swept is removed."""
        total = Counts()
        files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        paths = [path.relative_to(folder).as_posix() for path in files]
        names, counts = self._redactor.names(self._policy, paths, halt, owner=self._owner)
        total.add(counts)
        swept_folder = folder.with_name(f".{folder.name}-swept")
        shutil.rmtree(swept_folder, ignore_errors=True)
        for file, path, name in zip(files, paths, names, strict=True):
            target = swept_folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            total.add(self._file(file, target, path, name, halt))
        if self._policy["mode"] == "redact":
            shutil.rmtree(folder)
            swept_folder.mkdir(parents=True, exist_ok=True)
            swept_folder.rename(folder)
        else:
            shutil.rmtree(swept_folder, ignore_errors=True)
        return total

    def take_warnings(self) -> list[str]:
        """Returns the warnings since the last call, about files that were not swept in full."""
        with self._lock:
            warnings, self._warnings = self._warnings, []
        return warnings

    def _file(self, source: Path, target: Path, path: str, name: str, halt: threading.Event | None) -> Counts:
        size = source.stat().st_size
        outcome, counts = self._counted(
            lambda policy: self._redactor.file(policy, source, target, path, halt, owner=self._owner)
        )
        warning = sweep_warning(outcome, name, self._redactor.limit_of(size), self._redactor.expanded_mb)
        if warning is not None:
            with self._lock:
                self._warnings.append(warning)
        return counts

    def _counted(self, sweep: Callable[[Mapping[str, Any]], tuple[T, Counts]]) -> tuple[T, Counts]:
        """Returns what a sweep returns; adds the model calls of failed sweeps to the next one that succeeds."""
        with self._asking, tracing.child("redaction"):
            try:
                swept, counts = sweep({**self._policy, "max_model_calls": self._calls_left})
            except RedactionError as error:
                self._calls_left = max(0, self._calls_left - error.model_calls)
                self._unrecorded_calls += error.model_calls
                raise
            if counts.model_calls or self._unrecorded_calls:
                self._calls_left = max(0, self._calls_left - counts.model_calls)
                counts.model_calls += self._unrecorded_calls
                self._unrecorded_calls = 0
            return swept, counts
