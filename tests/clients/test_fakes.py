"""The fake service refuses as the real one does: in its order, by type, and with its codes alone."""

from typing import Any

import httpx
import pytest

from contract import failure_codes
from workflow_api_client import Client, errors
from workflow_api_client.testing import FakeApi, complete, fail
from workflow_api_client.testing.calls import EXTERNAL_ID, KEY
from workflow_api_client.testing.script import FAILURE_CODES

KEYED = {"Authorization": f"Bearer {KEY}", "X-Service-Key-External-Id": EXTERNAL_ID}


def asked(api: FakeApi, method: str, path: str, headers: dict[str, str], body: Any = None) -> tuple[int, Any]:
    with httpx.Client(transport=api.transport(), base_url="http://fake.invalid/api/v1") as http:
        answer = http.request(method, path, headers=headers, json=body)
    return answer.status_code, answer.json().get("error")


@pytest.mark.parametrize(
    ("method", "path", "keyed", "code"),
    [
        ("GET", "/nowhere", False, "not_found"),
        ("PUT", "/runs", False, "method_not_allowed"),
        ("GET", "/runs", False, "unauthorized"),
        ("GET", "/runs?limit=0&status=odd&cursor=x", True, "invalid_request"),
        ("GET", "/runs?status=odd&cursor=x", True, "invalid_filter"),
        ("GET", "/runs?created_before=soon", True, "invalid_filter"),
        ("GET", "/runs?cursor=x", True, "invalid_cursor"),
        ("POST", "/workflows/wf_none/runs", True, "invalid_request"),
    ],
)
def test_the_first_failure_in_the_documented_order_decides(
    api: FakeApi, method: str, path: str, keyed: bool, code: str
) -> None:
    assert asked(api, method, path, KEYED if keyed else {}, {} if method == "POST" else None)[1]["code"] == code


def test_a_start_is_checked_in_the_documented_order(api: FakeApi) -> None:
    workflow = api.workflow("Digest", parameters=[{"name": "pages", "type": "integer", "required": True}])
    path, keyed = f"/workflows/{workflow}/runs", {**KEYED, "Idempotency-Key": "one"}
    body: dict[str, Any] = {"parameters": {"pages": 1}}
    _, refused = asked(api, "POST", path, KEYED, {"version": 0, "labels": {"": 1}, "more": 1, "input_text": 5})
    assert {each["name"] for each in refused["details"]} == {
        "Idempotency-Key",
        "more",
        "input_text",
        "labels",
        "version",
    }
    assert asked(api, "POST", path, keyed, body)[0] == 201
    assert asked(api, "POST", path, keyed, {**body, "labels": {}})[0] == 200
    assert asked(api, "POST", path, keyed, {**body, "version": 9})[1]["code"] == "idempotency_conflict"
    for number, (to, given, code) in enumerate(
        [
            ("/workflows/wf_none/runs", {"version": 9}, "workflow_not_found"),
            (path, {"version": 9}, "version_not_found"),
            (path, {}, "invalid_parameters"),
        ]
    ):
        assert asked(api, "POST", to, {**KEYED, "Idempotency-Key": str(number)}, given)[1]["code"] == code


@pytest.mark.parametrize(
    ("kind", "fits", "misfits"),
    [
        ("string", ["", "a"], [1, True]),
        ("integer", [1, 2.0], ["1", 1.5, True]),
        ("number", [1, 1.5], ["1", True]),
        ("boolean", [True], [1, "true"]),
        ("date", ["2026-01-31"], ["2026-02-30", 5]),
        ("json", [None, {"a": [1]}, "x"], []),
        ("s3_prefix", ["s3://bucket/a/"], ["bucket/a", 1]),
    ],
)
def test_parameters_are_checked_by_their_types(api: FakeApi, kind: str, fits: list[Any], misfits: list[Any]) -> None:
    api.workflow("Digest", parameters=[{"name": "value", "type": kind, "required": True}])
    client = api.client()
    for value in fits:
        assert client.runs.start("Digest", parameters={"value": value}).wait().status == "completed"
    for value in [*misfits, *([] if kind == "json" else [None])]:
        with pytest.raises(errors.InvalidParametersError):
            client.runs.start("Digest", parameters={"value": value})
    with pytest.raises(errors.InvalidParametersError, match="other"):
        client.runs.start("Digest", parameters={"value": fits[0], "other": 1})


def test_bounds_of_parameters_are_checked(api: FakeApi) -> None:
    declared: list[dict[str, Any]] = [
        {"name": "pages", "type": "integer", "minimum": 1, "maximum": 9},
        {"name": "tone", "enum": ["dry"]},
        {"name": "title", "min_length": 2, "max_length": 3},
    ]
    api.workflow("Digest", parameters=declared)
    wrong = {"pages": 10, "tone": "warm", "title": "a"}
    with pytest.raises(errors.InvalidParametersError) as refused:
        api.client().runs.start("Digest", parameters=wrong)
    assert {each["name"] for each in refused.value.details} == wrong.keys()


def test_only_codes_and_types_of_the_service_can_be_scripted(api: FakeApi) -> None:
    with pytest.raises(ValueError, match="rate_limited"):
        api.refuse("too_fast")
    with pytest.raises(ValueError, match="node_failed"):
        fail("no", code="sky_fell")
    with pytest.raises(ValueError, match="s3_prefix"):
        api.workflow("Digest", parameters=[{"name": "a", "type": "text"}])
    assert set(FAILURE_CODES) == set(failure_codes.ALL)


def test_runs_are_listed_newest_first_between_two_times(api: FakeApi) -> None:
    api.workflow("Digest", script=[complete()])
    client: Client = api.client()
    runs = []
    for _ in range(3):
        runs.append(client.runs.start("Digest"))
        api.clock.sleep(10)
    times = [run.record.created_at for run in runs]
    listed = client.runs.list(created_after=times[0], created_before=times[2])
    assert [each.run_id for each in listed] == [runs[1].id]
    assert [each.run_id for each in client.runs.list()] == [run.id for run in reversed(runs)]
