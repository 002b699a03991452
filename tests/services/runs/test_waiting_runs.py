"""Waiting runs by workflow and key, and the probable wait of a start, read from the tables."""

from collections.abc import Mapping
from contextlib import closing

from backend.services.runs.backlog import Backlog
from backend.services.runs.waiting_runs import OF_PEOPLE, Rate, Waiting, WaitingRuns, waiting_runs
from tests.services.runs.world import World

MINUTE = 60_000


def waiting(world: World) -> WaitingRuns:
    now = world.clock()
    return world.services.database.snapshot(lambda tx: waiting_runs(tx, now))


def test_waiting_runs_are_counted_by_workflow_and_key_with_the_oldest(world: World) -> None:
    began = world.clock()
    other = world.new_key(name="Other")
    for key in (other, None):
        world.started(key=key)
        world.clock.advance(seconds=10)
    world.started("Gated", key=other)
    world.begin(world.started())
    found = waiting(world)
    workflows = {each.name: (each.number, each.oldest_at) for each in found.by_workflow()}
    assert workflows == {"Plain": (2, began), "Gated": (1, began + 20_000)}
    assert found.by_key()[0] == Waiting(other, "Other", 2, began)
    assert found.taken[world.key] == 1


def test_the_rate_is_of_runs_that_began_since_the_oldest_began_to_wait(world: World) -> None:
    early = world.started()
    world.begin(early)
    world.close(early)
    world.clock.advance(seconds=60)
    waits = [world.started() for _ in range(4)]
    assert waiting(world).start_wait(world.key) is None, "none has begun yet"
    world.clock.advance(seconds=30)
    world.begin(waits[1])
    world.begin(waits[2])
    world.close(waits[2])
    world.cancel(waits[3])
    found = waiting(world)
    assert found.rate == Rate(2, MINUTE // 2)
    assert found.start_wait(world.key) == 30_000
    assert found.start_wait(OF_PEOPLE) == 15_000


def test_the_rate_is_of_the_last_five_minutes_at_most(world: World) -> None:
    world.started()
    early = world.started()
    world.begin(early)
    world.close(early)
    world.clock.advance(seconds=600)
    world.begin(world.started())
    assert waiting(world).rate == Rate(1, 5 * MINUTE)


def test_metrics_tell_the_probable_wait_and_what_waits_by_workflow_only_where_they_may_name_it(world: World) -> None:
    def measured(*, by_workflow: bool) -> dict[str, list[tuple[Mapping[str, str], float]]]:
        with closing(Backlog(world.services, by_workflow=by_workflow)) as backlog:
            return {
                family.name.removeprefix("workflow_api_"): [(each.labels, each.value) for each in family.samples]
                for family in backlog.measured()
            }

    assert measured(by_workflow=False)["start_wait_seconds"] == [({}, 0)]
    world.started()
    begun = world.started()
    world.clock.advance(seconds=20)
    assert measured(by_workflow=False)["start_wait_seconds"] == [], "unknown: none has begun"
    world.begin(begun)
    assert not {name for name in measured(by_workflow=False) if name.startswith(("workflow_", "key_"))}
    found = measured(by_workflow=True)
    [(labels, number)] = found["workflow_segments_queued"]
    assert (labels["workflow"], labels["key_id"], number) == ("Plain", world.key, 1)
    assert [value for _, value in found["workflow_oldest_queued_segment_seconds"]] == [20]
    assert found["key_start_wait_seconds"] == [({"key_id": world.key}, 40)]
    assert found["start_wait_seconds"] == [({}, 40)]
