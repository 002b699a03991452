"""The objects that a final sweep leaves, also where it fails. (contract 13.9, 21.11)"""

import contextlib
import json
import logging
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from backend.resources.redaction.confined_redactor import OVER_LIMIT, RedactionError
from backend.runtime.final_sweep.scheduler import CONCURRENT_SWEEPS
from backend.runtime.promotion import LARGEST_INLINE_BYTES, SUMMARY_TOO_LONG
from backend.services.runs import lifecycle
from backend.storage.database import DatabaseUnavailableError
from redaction.counts import Counts
from redaction.formats.outcome import FileOutcome
from tests.services.runs.world import World
from tests.services.runtime.sweeping import ConfinedRedactor, Sweeping
from tests.support.poll import until


@pytest.fixture
def sweeping(services: Any, clock: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Sweeping:
    caplog.set_level(logging.CRITICAL)
    return Sweeping(World(services, clock, tmp_path), tmp_path / "sweeps")


def test_only_swept_content_of_a_run_stays(sweeping: Sweeping) -> None:
    run_id = sweeping.finished()
    sweeping.sweep()
    sweeping.sweep()
    assert sweeping.stored(run_id) == [b"swept"]
    assert sweeping.world.count("pending_deletions") == 0


@pytest.mark.parametrize(("length", "shown"), [(LARGEST_INLINE_BYTES - 1, True), (LARGEST_INLINE_BYTES, False)])
def test_a_summary_that_its_redaction_lengthens_over_the_bound_is_null_and_warned_of(
    sweeping: Sweeping, monkeypatch: pytest.MonkeyPatch, length: int, shown: bool
) -> None:
    def lengthened(_: Any, values: list[Any], *__: Any, **___: Any) -> tuple[list[Any], Counts]:
        return [
            {"summary_markdown": one["summary_markdown"] + "x"} if isinstance(one, dict) else one for one in values
        ], Counts()

    monkeypatch.setattr(sweeping.redactor, "values", lengthened)
    world = sweeping.world
    run_id = world.started("Swept", pii_policy_override={"mode": "redact"})
    world.begin(run_id)
    world.output(run_id, "result.json", json.dumps({"summary_markdown": "x" * length}).encode(), None)
    assert world.close(run_id, warnings=["another"])
    sweeping.sweep()
    row = world.row(run_id)
    assert (row.summary_markdown is not None) == shown
    assert json.loads(row.warnings) == ["another", *([] if shown else [SUMMARY_TOO_LONG])]


def test_a_summary_that_its_redaction_shortens_below_the_bound_is_shown_without_a_warning(
    sweeping: Sweeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shortened(_: Any, values: list[Any], *__: Any, **___: Any) -> tuple[list[Any], Counts]:
        return [{"summary_markdown": "short"} if isinstance(one, dict) else one for one in values], Counts()

    monkeypatch.setattr(sweeping.redactor, "values", shortened)
    world = sweeping.world
    run_id = world.started("Swept", pii_policy_override={"mode": "redact"})
    world.begin(run_id)
    summary = "x" * (LARGEST_INLINE_BYTES + 1)
    world.output(run_id, "result.json", json.dumps({"summary_markdown": summary}).encode(), None)
    assert world.close(run_id, warnings=[SUMMARY_TOO_LONG])
    sweeping.sweep()
    assert (world.row(run_id).summary_markdown, json.loads(world.row(run_id).warnings)) == ("short", [])


def test_objects_stored_during_the_erasure_of_a_run_are_removed(
    sweeping: Sweeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = sweeping.finished()
    sweeping.redactor.before = lambda: sweeping.erase(run_id)
    with monkeypatch.context() as fault:
        for name in ("delete", "delete_chosen", "delete_prefix"):
            fault.setattr(sweeping.world.objects, name, _away)
        sweeping.sweep()
    assert sweeping.stored(run_id), "the store was away"
    sweeping.world.clock.advance(seconds=1)
    sweeping.sweep()
    assert b"swept" not in sweeping.stored(run_id)
    sweeping.world.removals.round()
    assert sweeping.stored(run_id) == []


def test_objects_left_by_a_crashed_sweep_of_an_erased_run_are_removed(
    sweeping: Sweeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = sweeping.finished()
    sweeping.redactor.before = lambda: sweeping.erase(run_id)
    sweeping.crash(monkeypatch)
    assert sweeping.stored(run_id) == [b"swept"]
    sweeping.restart()
    assert sweeping.stored(run_id) == []


def test_outputs_left_by_a_crash_are_stored_by_the_next_sweep(
    sweeping: Sweeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = sweeping.finished()
    sweeping.crash(monkeypatch)
    assert sweeping.stored(run_id) == [b"personal", b"swept"]
    sweeping.restart()
    assert sweeping.stored(run_id) == [b"swept"]
    assert sweeping.world.row(run_id).redaction_state == "done"


def test_copies_of_sweeps_that_crashed_do_not_add_up(sweeping: Sweeping, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = sweeping.finished()
    for _ in range(3):
        sweeping.crash(monkeypatch)
        sweeping.sweeps = sweeping.restarted()
    assert sweeping.stored(run_id) == [b"personal", b"swept"]
    sweeping.sweep()
    assert sweeping.stored(run_id) == [b"swept"]


def test_a_copy_stored_while_another_process_removes_an_erased_run_is_removed_after_a_crash(
    sweeping: Sweeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, other = sweeping.finished(), sweeping.restarted()

    def erase() -> None:
        sweeping.erase(run_id)
        other.round()

    sweeping.redactor.before = erase
    sweeping.crash(monkeypatch)
    assert sweeping.stored(run_id) == [b"swept"]
    sweeping.restart()
    assert sweeping.stored(run_id) == []


@pytest.fixture
def without_hold(sweeping: Sweeping, monkeypatch: pytest.MonkeyPatch) -> Sweeping:
    """Sweeps that go on although the database lost their sessions, and with these the names that they held."""
    monkeypatch.setattr(
        sweeping.world.services.database, "try_advisory_lock", lambda _: contextlib.nullcontext(enter_result=True)
    )
    return sweeping


def opened(world: World, run_id: str) -> list[Any]:
    """Everything of a run's outputs that its readers see."""
    rows = world.dump(f"outputs WHERE run_id = '{run_id}'")
    contents = [b"".join(world.objects.open_range(row.object_key, 0, row.size_bytes)) for row in rows]
    return [world.row(run_id), rows, contents]


@pytest.mark.parametrize("withheld", [False, True])
def test_a_late_sweep_changes_nothing_that_another_has_opened(
    without_hold: Sweeping, tmp_path: Path, withheld: bool
) -> None:
    world, late, other = without_hold.world, without_hold, Sweeping(without_hold.world, tmp_path / "elsewhere")
    run_id = late.finished()
    late.redactor.content = b"later"
    if withheld:
        late.redactor.outcome = FileOutcome("unknown", withheld=True, reason=OVER_LIMIT)
    seen: list[Any] = []

    def overtake() -> None:
        other.sweep()
        seen.extend(opened(world, run_id))

    late.redactor.before = overtake
    for sweep in late.sweeps.round():
        sweep.result()
    assert seen[-1] == [b"swept"]
    assert opened(world, run_id) == seen
    late.sweep()
    assert late.stored(run_id) == [b"swept"]
    assert world.count("pending_deletions") == 0


def test_a_sweep_opens_nothing_once_another_began_and_removed_its_copies(
    without_hold: Sweeping, tmp_path: Path
) -> None:
    world, late, other = without_hold.world, without_hold, Sweeping(without_hold.world, tmp_path / "elsewhere")
    run_id = late.finished("first/a.txt", "first/b.txt")

    def fail() -> None:
        raise RedactionError("the model does not answer")

    def overtake() -> None:
        if b"swept" in late.stored(run_id):
            other.sweep()

    other.redactor.before, late.redactor.before = fail, overtake
    for sweep in late.sweeps.round():
        sweep.result()
    assert world.row(run_id).redaction_state == "pending"
    late.redactor.before = lambda: None
    late.sweep()
    assert opened(world, run_id)[-1] == [b"swept", b"swept"]
    assert late.stored(run_id) == [b"swept", b"swept"]


def test_an_object_that_cannot_be_removed_delays_no_sweep(sweeping: Sweeping, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def locked(key: str, *_: Any) -> None:
        asked.append(key)
        raise OSError(key)

    first = sweeping.finished()
    with monkeypatch.context() as fault:
        fault.setattr(sweeping.world.objects, "delete", locked)
        fault.setattr(sweeping.world.objects, "delete_chosen", locked)
        sweeping.sweep()
        second = sweeping.finished()
        sweeping.sweep()
        assert [sweeping.world.row(run_id).redaction_state for run_id in (first, second)] == ["done", "done"]
        assert len(asked) == 4, "each is tried again after a pause"
    sweeping.world.clock.advance(seconds=1)
    sweeping.sweep()
    assert [sweeping.stored(run_id) for run_id in (first, second)] == [[b"swept"], [b"swept"]]


def test_removals_are_repeated_after_their_write_failed(sweeping: Sweeping, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise DatabaseUnavailableError

    first = sweeping.finished()
    for sweep in sweeping.sweeps.round():
        sweep.result()
    with monkeypatch.context() as fault:
        fault.setattr(sweeping.world.services.database, "write", away)
        for removals in sweeping.sweeps.round():
            removals.result()
    assert sweeping.world.count("pending_deletions")
    sweeping.sweep()
    assert sweeping.world.count("pending_deletions") == 0
    assert sweeping.stored(first) == [b"swept"]


def test_removals_in_progress_delay_no_sweep(sweeping: Sweeping, monkeypatch: pytest.MonkeyPatch) -> None:
    held, go_on = threading.Event(), threading.Event()
    remove = sweeping.world.objects.delete_chosen

    def slow(*given: Any) -> None:
        held.set()
        assert go_on.wait(60)
        remove(*given)

    first = sweeping.finished()
    for sweep in sweeping.sweeps.round():
        sweep.result()
    monkeypatch.setattr(sweeping.world.objects, "delete_chosen", slow)
    try:
        [removals] = sweeping.sweeps.round()
        assert held.wait(60)
        second = sweeping.finished()
        for sweep in sweeping.sweeps.round():
            sweep.result(60)
        assert sweeping.world.row(second).redaction_state == "done"
        assert not removals.done()
    finally:
        go_on.set()
    removals.result(60)
    assert sweeping.stored(first) == [b"swept"]


def _away(*_: Any) -> None:
    raise OSError("the store is away")


class Stuck(ConfinedRedactor):
    """Sweeps what belongs to one key until it is halted."""

    def __init__(self, owner: str) -> None:
        super().__init__()
        self._owner = owner
        self.folders: list[Path] = []

    def file(self, *given: Any, owner: str = "", **_: Any) -> tuple[FileOutcome, Counts]:
        source, target, halt = given[1], given[2], given[-1]
        if owner != self._owner:
            return super().file(None, source, target)
        self.folders.append(source.parent)
        halt.wait()
        raise RedactionError("the sweep was ended")


class OverLimitRedactor(ConfinedRedactor):
    """Sweeps nothing within its limits."""

    def values(self, *_: Any, **__: Any) -> tuple[list[Any], Counts]:
        raise RedactionError("it takes too long", over_limit=True)

    names = values

    def file(self, *_: Any, **__: Any) -> tuple[FileOutcome, Counts]:
        return FileOutcome("unknown", withheld=True, reason=OVER_LIMIT), Counts(files=1, withheld_files=1)


def stuck(sweeping: Sweeping, count: int) -> tuple[Stuck, list[str], "list[Future[None]]"]:
    """As many sweeps of one key as there may be, which do not end by themselves."""
    redactor = sweeping.redactor = Stuck(sweeping.world.key)
    sweeping.sweeps = sweeping.restarted()
    run_ids = [sweeping.finished() for _ in range(count)]
    futures = sweeping.sweeps.round()
    until(lambda: len(redactor.folders) == CONCURRENT_SWEEPS, "the sweeps")
    return redactor, run_ids, futures


def test_stuck_sweeps_of_a_key_delay_no_other_key(sweeping: Sweeping) -> None:
    _, run_ids, futures = stuck(sweeping, CONCURRENT_SWEEPS + 2)
    hostile, sweeping.world.key = sweeping.world.key, sweeping.world.new_key(name="other")
    other = sweeping.finished()
    for sweep in sweeping.sweeps.round():
        sweep.result()
    assert sweeping.world.row(other).redaction_state == "done"
    assert not any(future.done() for future in futures)
    assert {sweeping.world.row(run_id).redaction_state for run_id in run_ids} == {"pending"}
    sweeping.world.key = hostile
    sweeping.sweeps.stop()


def test_erasing_a_run_ends_its_sweep_and_leaves_no_copy(sweeping: Sweeping) -> None:
    redactor, run_ids, futures = stuck(sweeping, CONCURRENT_SWEEPS)
    assert [folder for folder in redactor.folders if (folder / "source").read_bytes() == b"personal"]
    # In another process, which tells this one nothing.
    sweeping.world.erase(run_ids[0])
    sweeping.sweeps.round()
    futures[0].result()
    assert not any(future.done() for future in futures[1:])
    assert sorted(folder.name for folder in redactor.folders[0].parent.iterdir()) == sorted(run_ids[1:])
    sweeping.world.erase(run_ids[1])
    sweeping.sweeps.forget(run_ids[1])
    assert futures[1].done()
    assert not (redactor.folders[0].parent / run_ids[1]).exists()
    sweeping.sweeps.stop()
    assert list(redactor.folders[0].parent.iterdir()) == []


def test_a_file_that_exceeds_the_limits_of_a_sweep_is_withheld_with_a_warning(sweeping: Sweeping) -> None:
    sweeping.redactor = OverLimitRedactor()
    sweeping.sweeps = sweeping.restarted()
    run_id = sweeping.world.started("Swept", pii_policy_override={"mode": "redact"})
    sweeping.world.begin(run_id)
    sweeping.world.output(run_id, "first/a.txt", b"personal")
    output_id = sweeping.world.output(run_id, "result.json", b'"personal"', step=None)
    result = lifecycle.RunResult('"personal"', output_id, 10, "sha")
    sweeping.world.close(run_id, "failed", error_message="ask Jane", warnings=["ask Jane"], result=result)
    sweeping.sweep()
    row = sweeping.world.row(run_id)
    assert row.redaction_state == "done"
    assert (row.result, row.result_output_id, row.outputs_count) == (None, None, 0)
    assert "Jane" not in f"{row.error_message} {row.warnings}"
    assert "The file 'result.json' was withheld" in row.warnings
    assert sweeping.stored(run_id) == []
