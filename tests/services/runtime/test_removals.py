"""Erasures that the object store refused."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.runtime.execution.outcomes import ORPHANED
from backend.services import Services
from backend.storage.objects import FolderObjects
from tests.services.conftest import TestClock
from tests.services.runtime.conftest import Live, agent_step
from tests.support.poll import until


class AwayForAWhile(FolderObjects):
    """Removes nothing while it is away."""

    away = True
    asked = 0

    def delete_prefix(self, prefix: str) -> None:
        self.asked += 1
        if self.away:
            raise OSError("the store is away")
        super().delete_prefix(prefix)


@pytest.fixture
def objects(tmp_path: Path) -> AwayForAWhile:
    return AwayForAWhile(tmp_path / "away")


@pytest.fixture
def live(services: Services, clock: TestClock, tmp_path: Path, objects: AwayForAWhile) -> Iterator[Live]:
    live = Live(services, clock, tmp_path)
    live.objects = objects
    live.live = live.new_runtime(tmp_path / "data")
    live.live.start()
    yield live
    live.live.stop()


def test_what_the_store_refused_to_remove_is_removed_while_the_service_runs(
    live: Live, objects: AwayForAWhile, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = live.run("Writes", [agent_step("write", "writer")])
    live.until_ended(run_id)
    with caplog.at_level(logging.CRITICAL):
        live.erase(run_id)
        until(lambda: objects.asked, "the first try")
        assert live.count("pending_removals") == 1
        objects.away = False
        live.live._dispatcher.removing.wake()
    until(lambda: live.count("pending_removals") == 0, "the removal")
    assert not [path for path in (tmp_path / "away").rglob("*") if path.is_file()]


def test_what_is_stored_for_a_run_after_its_erasure_is_removed_too(
    services: Services, clock: TestClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    live = Live(services, clock, tmp_path)
    live.objects = FolderObjects(tmp_path / "kept")
    live.live = live.new_runtime(tmp_path / "data")
    live.live.start()
    run_id = live.run("Prints", [agent_step("say", "printer")])
    live.until_event(run_id, "step.progress")
    segment_id = live.events(run_id).segment_id
    # As another process does that takes this one for dead, while its step is about to end.
    services.database.write(lambda tx: ORPHANED.close(tx, run_id, services.clock()))
    live.erase(run_id)
    until(lambda: live.count("pending_removals") == 0, "the first removal")
    until(lambda: not live.live._executor.sessions.executes(segment_id), "the step to end")
    live.live._dispatcher.removing.wake()
    until(lambda: live.count("pending_removals") == 0, "the second removal")
    live.live.stop()
    assert not [path for path in (tmp_path / "kept").rglob("*") if path.is_file()]
