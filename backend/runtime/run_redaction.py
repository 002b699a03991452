"""The sweeps of a run while it goes: what its steps are given, hand on and say. (docs/redaction.md)."""

import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from backend.runtime.redaction import Counts
from backend.runtime.redactor import Redactor

INPUTS: Final = "inputs"
STEPS: Final = "steps"
OUTPUTS: Final = "outputs"


class RunRedaction:
    """One run's policy, which is not off, at work. Thread-safe; every sweep blocks, and raises RedactionError.

    `calls_made` is how often the run's model was asked before.
    """

    def __init__(self, redactor: Redactor, policy: Mapping[str, Any], calls_made: int) -> None:
        self._redactor = redactor
        self._policy = policy
        self._calls_left = max(0, policy["max_model_calls"] - calls_made)
        self._lock = threading.Lock()

    def covers(self, stage: str) -> bool:
        """Whether the policy names the stage."""
        return stage in self._policy["stages"]

    @property
    def stage_of_words(self) -> str | None:
        """The stage that messages of steps are swept in, for readers see them while the run goes."""
        return next((stage for stage in (STEPS, OUTPUTS) if self.covers(stage)), None)

    def value(self, value: Any) -> tuple[Any, Counts]:
        """Sweeps a JSON value."""
        (swept,), counts = self._redactor.values(self._left(), [value])
        self._count(counts)
        return swept, counts

    def folder(self, folder: Path) -> Counts:
        """Sweeps every file below a folder in its place, and its name; a file that cannot be swept is removed."""
        total = Counts()
        files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        names, counts = self._redactor.names(self._left(), [path.relative_to(folder).as_posix() for path in files])
        total.add(counts)
        swept_folder = folder.with_name(f".{folder.name}-swept")
        shutil.rmtree(swept_folder, ignore_errors=True)
        for path, name in zip(files, names, strict=True):
            target = swept_folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            _, counts = self._redactor.file(self._left(), path, target, path.relative_to(folder).as_posix())
            self._count(counts)
            total.add(counts)
        if self._policy["mode"] == "redact":
            shutil.rmtree(folder)
            swept_folder.mkdir(parents=True, exist_ok=True)
            swept_folder.rename(folder)
        else:
            shutil.rmtree(swept_folder, ignore_errors=True)
        return total

    def _left(self) -> dict[str, Any]:
        return {**self._policy, "max_model_calls": self._calls_left}

    def _count(self, counts: Counts) -> None:
        with self._lock:
            self._calls_left = max(0, self._calls_left - counts.model_calls)
