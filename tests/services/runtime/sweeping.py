"""Final sweeps of a world, by a redactor that does what a test wants."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backend.common.json_text import JsonText
from backend.resources.redaction.confined_redactor import SweptText
from backend.runtime.final_sweep.scheduler import FinalSweeps
from redaction.counts import Counts
from redaction.formats.outcome import FileOutcome
from tests.services.runs.world import World


class ConfinedRedactor:
    """Writes `content` in place of every file, after what is to happen `before`."""

    def __init__(self) -> None:
        self.before: Callable[[], object] = lambda: None
        self.content = b"swept"
        self.outcome = FileOutcome("text")

    def values(self, _: Any, values: list[Any], __: Any, **___: Any) -> tuple[list[Any], Counts]:
        return values, Counts()

    names = values

    def text(self, policy: Any, text: str, halt: Any, member: str, **_: Any) -> tuple[SweptText, Counts]:
        [value], counts = self.values(policy, [json.loads(text)], halt)
        found = value.get(member) if isinstance(value, dict) else None
        return SweptText(JsonText(json.dumps(value)), found), counts

    def file(self, _: Any, __: Path, target: Path, *___: Any, **____: Any) -> tuple[FileOutcome, Counts]:
        self.before()
        target.write_bytes(self.content)
        return self.outcome, Counts()

    expanded_mb = 500

    def limit_of(self, _: int) -> str:
        return "10 seconds"


class Crash(BaseException):
    """The end of the process."""


class Sweeping:
    """A world, its final sweeps, and what they work with."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.redactor: ConfinedRedactor = ConfinedRedactor()
        self._folder = folder
        self.sweeps = self.restarted()

    def restarted(self) -> FinalSweeps:
        """The sweeps of a new process."""
        services, objects = self.world.services, self.world.objects
        return FinalSweeps(services.database, services.clock, objects, self.redactor, self._folder)  # type: ignore[arg-type]

    def sweep(self) -> None:
        """Lets the sweeps that are due come to their end, and their originals be removed."""
        for _ in range(2):
            for each in self.sweeps.round():
                each.result()

    def restart(self) -> None:
        """As `sweep`, in a new process."""
        self.sweeps = self.restarted()
        self.sweep()

    def finished(self, *files: str) -> str:
        """A run that waits to be swept, with one file unless others are given."""
        run_id = self.world.started("Swept", pii_policy_override={"mode": "redact"})
        self.world.begin(run_id)
        for file in files or ("first/a.txt",):
            self.world.output(run_id, file, b"personal")
        assert self.world.close(run_id)
        return run_id

    def erase(self, run_id: str) -> None:
        """Erases a run, and removes what is stored of it by then."""
        self.world.erase(run_id)
        self.world.removals.round()

    def crash(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Ends the process once it has stored a swept file."""
        put = self.world.objects.put_file

        def put_and_crash(key: str, source: Path) -> tuple[int, str]:
            put(key, source)
            # A process that is dead writes nothing any more.
            fault.setattr(self.world.services.database, "write", _crash)
            raise Crash

        with monkeypatch.context() as fault:
            fault.setattr(self.world.objects, "put_file", put_and_crash)
            with pytest.raises(Crash):
                self.sweep()

    def stored(self, run_id: str) -> list[bytes]:
        folder = self.world.stored_below(f"runs/{run_id}")
        return sorted(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def _crash(*_: Any, **__: Any) -> None:
    raise Crash
