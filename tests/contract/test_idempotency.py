"""Replays and conflicts of a start. (contract 12.7 to 12.17)"""

import json
import uuid
from concurrent.futures import ThreadPoolExecutor

from tests.contract.conftest import NewCaller
from tests.support.client import Caller
from tests.support.expect import invalid, refused
from tests.support.wire import Answer


def fresh() -> str:
    return uuid.uuid4().hex


def test_a_replay_answers_200_with_the_run_that_exists(caller: Caller, flows: dict[str, str]) -> None:
    key = fresh()
    first = caller.start(flows["Echo"], key, input_text="x")
    run = caller.wait(first.json()["run_id"])
    replay = caller.start(flows["Echo"], key, input_text="x")
    assert replay.status == 200
    assert replay.headers["Idempotency-Replayed"] == "true"
    assert replay.json() == run
    assert len(caller.get("/runs").json()["items"]) == 1


def test_a_replay_costs_no_quota(new_caller: NewCaller, flows: dict[str, str]) -> None:
    caller, key = new_caller(daily_run_quota=1, max_concurrent_runs=1), fresh()
    assert caller.start(flows["Park"], key).status == 201
    assert {caller.start(flows["Park"], key).status for _ in range(3)} == {200}
    assert caller.get("/me").json()["quota_used_today"] == 1


def test_bodies_are_compared_by_value_and_not_by_spelling(caller: Caller, flows: dict[str, str]) -> None:
    path, headers = f"/workflows/{flows['Echo']}/runs", {"Idempotency-Key": fresh()}
    first = b'{"input_text": "\xc3\xa9", "labels": {"a": "1", "b": "2"}}'
    same = rb' { "labels":{"b":"2","a":"1"},"input_text":"\u00e9" } '
    assert caller.call("POST", path, headers=headers, body=first).status == 201
    assert caller.call("POST", path, headers=headers, body=same).status == 200


def test_absent_and_empty_parameters_labels_and_overrides_are_one_body(caller: Caller, flows: dict[str, str]) -> None:
    path, headers = f"/workflows/{flows['Silence']}/runs", {"Idempotency-Key": fresh()}
    empty = (b'{"parameters":{}}', b'{"labels":{}}', b'{"pii_policy_override":{}}')
    bodies = (b"", b"{}", *empty, b'{"labels":{},"parameters":null,"pii_policy_override":null}')
    statuses = [caller.call("POST", path, headers=headers, body=body).status for body in bodies]
    assert statuses == [201, 200, 200, 200, 200, 200]


def test_the_same_key_with_another_body_conflicts(caller: Caller, flows: dict[str, str]) -> None:
    key = fresh()
    caller.start(flows["Echo"], key, input_text="x")
    refused(caller.start(flows["Echo"], key, input_text="y"), 409, "idempotency_conflict")
    refused(caller.start(flows["Echo"], key), 409, "idempotency_conflict")


def test_the_same_key_with_another_workflow_conflicts(caller: Caller, flows: dict[str, str]) -> None:
    key = fresh()
    caller.start(flows["Echo"], key)
    refused(caller.start(flows["Silence"], key), 409, "idempotency_conflict")


def test_idempotency_keys_of_two_api_keys_are_apart(new_caller: NewCaller, flows: dict[str, str]) -> None:
    key = fresh()
    answers = [new_caller().start(flows["Silence"], key) for _ in range(2)]
    assert [answer.status for answer in answers] == [201, 201]


def test_an_invalid_request_binds_nothing(caller: Caller, flows: dict[str, str]) -> None:
    key = fresh()
    invalid(caller.start(flows["Silence"], key, version="x"), "version")
    assert caller.start(flows["Silence"], key).status == 201


def test_a_refused_start_binds_its_key_to_its_body(caller: Caller, flows: dict[str, str]) -> None:
    """So it is resent with a new key once its body is mended."""
    for workflow, fields, code in (
        ("wf_none", {}, "workflow_not_found"),
        (flows["Withdrawn"], {}, "workflow_not_active"),
        (flows["Echo"], {"version": 9}, "version_not_found"),
        (flows["Unstaffed"], {}, "workflow_not_ready"),
        (flows["Typed"], {"parameters": {"word": 1}}, "invalid_parameters"),
        (flows["Detecting"], {"pii_policy_override": {"mode": "off"}}, "policy_not_tightening"),
        (flows["Detecting"], {"pii_policy_override": 1}, "invalid_pii_policy"),
    ):
        key = fresh()
        assert caller.start(workflow, key, **fields).code == code
        refused(caller.start(flows["Silence"], key, input_text="other"), 409, "idempotency_conflict")
        assert caller.start(workflow, key, **fields).code == code


def test_a_start_refused_for_a_limit_is_judged_again_with_the_same_key(
    new_caller: NewCaller, flows: dict[str, str]
) -> None:
    caller, key = new_caller(max_concurrent_runs=1), fresh()
    run = caller.parked(flows["Park"])
    refused(caller.start(flows["Silence"], key), 429, "too_many_active_runs")
    refused(caller.start(flows["Silence"], key, input_text="other"), 409, "idempotency_conflict")
    caller.post(f"/runs/{run['run_id']}/cancel")
    caller.wait(run["run_id"], "cancelled")
    assert caller.start(flows["Silence"], key).status == 201


def test_sixteen_equal_starts_at_once_make_exactly_one_run(caller: Caller, flows: dict[str, str]) -> None:
    key = fresh()

    def start(_: int) -> Answer:
        return caller.start(flows["Park"], key, input_text="race")

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(start, range(16)))
    assert [answer.status for answer in answers].count(201) == 1
    for answer in answers:
        if answer.status == 409:
            refused(answer, 409, "idempotency_conflict")
            assert answer.headers["Retry-After"] == "1"
        else:
            assert answer.status in {200, 201}, answer
    assert len({answer.json()["run_id"] for answer in answers if answer.status < 300}) == 1
    assert len(caller.get("/runs").json()["items"]) == 1
    me = caller.get("/me").json()
    assert (me["quota_used_today"], me["active_runs"]) == (1, 1)


def test_sixteen_different_bodies_under_one_idempotency_key_make_exactly_one_run(
    caller: Caller, flows: dict[str, str]
) -> None:
    key = fresh()

    def start(number: int) -> Answer:
        return caller.start(flows["Park"], key, input_text=str(number))

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(start, range(16)))
    assert sorted(answer.status for answer in answers) == [201] + [409] * 15
    assert {answer.code for answer in answers} == {None, "idempotency_conflict"}


def test_a_conflict_shows_nothing_of_the_first_body(caller: Caller, flows: dict[str, str]) -> None:
    key = fresh()
    caller.start(flows["Silence"], key, input_text="private words")
    assert "private" not in json.dumps(caller.start(flows["Silence"], key).json())
