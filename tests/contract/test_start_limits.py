"""Slots and the daily quota, also under real concurrency. (contract 12.26 to 12.29)"""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from tests.contract.conftest import NewCaller
from tests.support.client import Caller
from tests.support.expect import refused
from tests.support.wire import Answer


def start_many(caller: Caller, workflow_id: str, threads: int = 32) -> list[Answer]:
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda _: caller.start(workflow_id), range(threads)))


def test_slots_are_exact_under_32_threads(new_caller: NewCaller, flows: dict[str, str]) -> None:
    caller = new_caller(max_concurrent_runs=10)
    answers = start_many(caller, flows["Park"])
    assert Counter(answer.code for answer in answers) == {None: 10, "too_many_active_runs": 22}
    me = caller.get("/me").json()
    assert (me["active_runs"], me["quota_used_today"]) == (10, 10)


def test_the_quota_is_exact_under_32_threads(new_caller: NewCaller, flows: dict[str, str]) -> None:
    caller = new_caller(daily_run_quota=10)
    answers = start_many(caller, flows["Park"])
    assert Counter(answer.code for answer in answers) == {None: 10, "quota_exceeded": 22}
    assert caller.get("/me").json()["quota_used_today"] == 10


def test_a_slot_refusal_names_the_runs_in_flight_and_uses_no_quota(
    new_caller: NewCaller, flows: dict[str, str]
) -> None:
    caller = new_caller(max_concurrent_runs=3)
    for _ in range(3):
        caller.started(flows["Park"])
    answer = caller.start(flows["Park"])
    error = refused(answer, 429, "too_many_active_runs")
    assert answer.headers["Retry-After"] == "5"
    assert "3" in error["message"]
    assert "wait" in error["message"].lower()
    assert caller.get("/me").json()["quota_used_today"] == 3


def test_slots_come_before_the_quota(new_caller: NewCaller, flows: dict[str, str]) -> None:
    caller = new_caller(max_concurrent_runs=1, daily_run_quota=1)
    caller.started(flows["Park"])
    refused(caller.start(flows["Park"]), 429, "too_many_active_runs")


def test_a_quota_refusal_names_the_quota_and_the_seconds_to_midnight(
    new_caller: NewCaller, flows: dict[str, str]
) -> None:
    caller = new_caller(daily_run_quota=2)
    for _ in range(2):
        caller.started(flows["Silence"])
    most = 86400 - time.time() % 86400
    answer = caller.start(flows["Silence"])
    least = 86400 - time.time() % 86400
    error = refused(answer, 429, "quota_exceeded")
    assert "2" in error["message"]
    assert "00:00 UTC" in error["message"]
    assert least - 1 <= int(answer.headers["Retry-After"]) <= most + 1


def test_a_refused_start_releases_its_slot(new_caller: NewCaller, flows: dict[str, str]) -> None:
    caller = new_caller(daily_run_quota=1, max_concurrent_runs=2)
    run = caller.finished(flows["Silence"])
    assert run["status"] == "completed"
    refused(caller.start(flows["Silence"]), 429, "quota_exceeded")
    assert caller.get("/me").json()["active_runs"] == 0


def test_a_slot_is_free_once_the_run_has_finished(new_caller: NewCaller, flows: dict[str, str]) -> None:
    caller = new_caller(max_concurrent_runs=1)
    for name, status in (("Silence", "completed"), ("Failure", "failed")):
        assert caller.finished(flows[name])["status"] == status
    run = caller.parked(flows["Park"])
    refused(caller.start(flows["Silence"]), 429, "too_many_active_runs")
    caller.post(f"/runs/{run['run_id']}/cancel")
    caller.wait(run["run_id"], "cancelled")
    caller.started(flows["Silence"])


def test_a_parked_run_holds_its_slot(new_caller: NewCaller, flows: dict[str, str]) -> None:
    caller = new_caller(max_concurrent_runs=1)
    caller.parked(flows["Gate"])
    refused(caller.start(flows["Silence"]), 429, "too_many_active_runs")


def test_limits_of_two_keys_are_apart(new_caller: NewCaller, flows: dict[str, str]) -> None:
    first, second = new_caller(max_concurrent_runs=1), new_caller(max_concurrent_runs=1)
    first.started(flows["Park"])
    second.started(flows["Park"])
