"""Starts without a key: runs of people inside the deployment. (contract 1.10, 27.4)"""

from tests.services.runs.world import World
from workflow_api.v1 import runs_pb2


def test_a_run_that_a_person_starts_is_no_keys_and_takes_no_quota(world: World) -> None:
    run = world.start(key=None).run
    assert (run.triggered_by, run.HasField("key_id")) == (runs_pb2.TRIGGERED_BY_CONSOLE, False)
    assert world.count("daily_usage", "1 = 1") == 0


def test_a_start_in_a_keys_name_is_never_a_persons(world: World) -> None:
    run = world.start(triggered_by=runs_pb2.TRIGGERED_BY_CONSOLE).run
    assert run.triggered_by == runs_pb2.TRIGGERED_BY_API_KEY


def test_only_a_start_by_a_person_is_audited_and_under_their_name(world: World) -> None:
    world.started()
    run_id = world.start(key=None).run.summary.run_id
    assert world.count("audit_records", "action = 'run.started'") == 1
    assert world.count("audit_records", f"action = 'run.started' AND target = '{run_id}' AND actor = 'tester'") == 1


def test_people_see_who_started_a_run_and_keys_do_not(world: World) -> None:
    by_person = world.start(key=None).run.summary.run_id
    by_key = world.started()
    assert (world.get(by_person, None).started_by, world.get(by_key, None).started_by) == ("tester", "caller")
    assert not world.get(by_key, world.key).HasField("started_by")


def test_an_approval_says_which_person_started_its_run(world: World) -> None:
    run_id = world.start("Gated", key=None).run.summary.run_id
    world.park(run_id, world.begin(run_id), "review")
    (item,) = world.runs("ListPendingApprovals", runs_pb2.ListPendingApprovalsRequest()).items
    assert (item.started_by, item.key_id) == ("tester", "")
