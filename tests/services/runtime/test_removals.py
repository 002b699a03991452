"""Removals of objects that the store refused at first."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.runtime.outcomes import ORPHANED
from backend.services.dependencies import Services
from backend.storage.objects import FolderObjects
from tests.services.conftest import TestClock
from tests.services.runtime.conftest import RuntimeWorld, agent_step
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
def world(services: Services, clock: TestClock, tmp_path: Path, objects: AwayForAWhile) -> Iterator[RuntimeWorld]:
    world = RuntimeWorld(services, clock, tmp_path)
    world.objects = objects
    world.local_runtime = world.new_runtime(tmp_path / "data")
    world.local_runtime.start()
    yield world
    world.local_runtime.stop()


def test_objects_that_a_store_refused_to_remove_are_removed_later(
    world: RuntimeWorld, objects: AwayForAWhile, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = world.run("Writes", [agent_step("write", "writer")])
    world.until_ended(run_id)
    with caplog.at_level(logging.CRITICAL):
        world.erase(run_id)
        until(lambda: objects.asked, "the first try")
        assert world.count("pending_removals") == 1
        objects.away = False
        world.local_runtime.dispatcher.removing.wake()
    until(lambda: world.count("pending_removals") == 0, "the removal")
    assert not [path for path in (tmp_path / "away").rglob("*") if path.is_file()]


def test_objects_stored_after_the_erasure_of_a_run_are_removed(
    services: Services, clock: TestClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = RuntimeWorld(services, clock, tmp_path)
    world.objects = FolderObjects(tmp_path / "kept")
    world.local_runtime = world.new_runtime(tmp_path / "data")
    world.local_runtime.start()
    run_id = world.run("Prints", [agent_step("say", "printer")])
    world.until_event(run_id, "step.progress")
    segment_id = world.events(run_id).segment_id
    # As another process does that takes this one for dead, while its step is about to end.
    services.database.write(lambda tx: ORPHANED.close(tx, run_id, services.clock()))
    world.erase(run_id)
    until(lambda: world.count("pending_removals") == 0, "the first removal")
    until(lambda: not world.local_runtime.executor.sessions.executes(segment_id), "the step to end")
    world.local_runtime.dispatcher.removing.wake()
    until(lambda: world.count("pending_removals") == 0, "the second removal")
    world.local_runtime.stop()
    assert not [path for path in (tmp_path / "kept").rglob("*") if path.is_file()]
