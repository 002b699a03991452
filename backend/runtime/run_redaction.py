"""Sweeps of one run by its PII policy, and the warnings about files that were not swept in full (docs/redaction.md)."""

import shutil
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final, TypeVar

from backend.common.json_text import JsonMapping, JsonText
from backend.common.optional_parts import PARQUET
from backend.resources.redaction.confined_redactor import (
    OVER_LIMIT,
    SWEEP_FAILED,
    ConfinedRedactor,
    RedactionError,
    SweptLines,
)
from backend.services.runs.redaction_manifest_sql import OUTPUTS, STEPS
from redaction.counts import Counts
from redaction.formats.outcome import FileOutcome
from telemetry import tracing

T = TypeVar("T")

_REASONS: Final[Mapping[str, str]] = {
    "broken": "it is malformed",
    "not_installed": PARQUET.not_installed,
    "embedded": "it holds pictures or other parts that cannot be searched",
    "too_large": "it expands to more than {expanded_mb} MB",
    "too_many_members": "it has more members than an archive may have",
    "too_deep": "its archives are nested too deep",
    "value_too_long": "it holds a value that is too long",
}


class RunRedaction:
    """Sweeps by one run's policy, which is not off. Thread-safe; every sweep blocks, and raises RedactionError.

    `calls_made` is how often the run's model was called before, `owner` the run's API key. A sweep ends soon after its
    `halt` is set.
    """

    def __init__(self, redactor: ConfinedRedactor, policy: JsonMapping, calls_made: int, owner: str) -> None:
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
        """Returns whether the policy replaces what it finds."""
        return bool(self._policy["mode"] == "redact")

    @property
    def redacts_outputs(self) -> bool:
        """Returns whether swept copies take the place of the run's outputs."""
        return self.redacts and self.covers(OUTPUTS)

    @property
    def asks_a_model(self) -> bool:
        """Returns whether the policy has a model search too."""
        return self._policy["model"] is not None

    def lines(self, above: str, text: str, halt: threading.Event | None = None) -> tuple[SweptLines, Counts]:
        """Sweeps whole lines of a text that grows; see `ConfinedRedactor.lines`."""
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

    def _counted(self, sweep: Callable[[JsonMapping], tuple[T, Counts]]) -> tuple[T, Counts]:
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


def sweep_warning(outcome: FileOutcome, name: str, limit: str, expanded_mb: int) -> str | None:
    """Returns the warning for a file, by its swept name, that was not swept in full; None for one that was."""
    if outcome.reason == OVER_LIMIT:
        return over_limit_warning(name, limit, outcome.withheld)
    if outcome.reason == SWEEP_FAILED:
        what = "was withheld" if outcome.withheld else "could not be searched"
        return f"The file '{name}' {what}, because its sweep for personal data failed."
    reason = _REASONS.get(outcome.reason or "")
    if reason is None:
        return None
    what = "was withheld, because it could not" if outcome.withheld else "could not"
    return f"The file '{name}' {what} be searched for personal data: {reason.format(expanded_mb=expanded_mb)}."


def over_limit_warning(name: str, limit: str, withheld: bool) -> str:
    """Returns the warning for a file, by its swept name, whose sweep exceeded the bounds that `limit` words."""
    what = "was withheld" if withheld else "could not be searched"
    return f"The file '{name}' {what}, because its sweep for personal data needs more than {limit}."
