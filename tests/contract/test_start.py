"""Starting a run: what a success answers, and what a body may hold. (contract 12)"""

from typing import Any

import pytest

from tests.support.client import Caller
from tests.support.expect import invalid, is_timestamp, refused
from tests.support.wire import exchange, request


def test_a_start_answers_201_with_the_run_and_its_location(caller: Caller, flows: dict[str, str]) -> None:
    answer = caller.start(flows["Echo"], input_text="hi", client_reference="r", labels={"a": "", "b c": "d"})
    assert answer.status == 201, answer
    run = answer.json()
    assert answer.headers["Location"] == f"/api/v1/runs/{run['run_id']}" == run["links"]["self"]
    assert answer.headers["Idempotency-Replayed"] is None
    assert run["status"] in {"queued", "running"}
    assert is_timestamp(run["created_at"])
    assert run["input_text"] == "hi"
    assert run["client_reference"] == "r"
    assert run["labels"] == {"a": "", "b c": "d"}
    assert run["key_id"] == caller.key_id
    assert run["triggered_by"] == "api_key"
    assert run["run_id"].startswith("run_")
    assert set(run) == set(caller.run(run["run_id"]))


def test_labels_are_an_empty_object_when_none_were_given(caller: Caller, flows: dict[str, str]) -> None:
    assert caller.start(flows["Silence"]).json()["labels"] == {}


FITTING: dict[str, dict[str, Any]] = {
    "input_text of 20,000 letters": {"input_text": "é" * 20_000},
    "input_text of 20,000 letters beyond the basic plane": {"input_text": "\U0001f600" * 20_000},
    "an empty input_text": {"input_text": ""},
    "client_reference of 256": {"client_reference": "~" * 256},
    "client_reference of blanks": {"client_reference": " "},
    "ten labels": {"labels": {f"label {number}": "x" for number in range(10)}},
    "a label at its bounds": {"labels": {"k" * 64: "v" * 256}},
    "an empty label value": {"labels": {"k": ""}},
    "no labels": {"labels": {}},
    "no parameters": {"parameters": {}},
}


@pytest.mark.parametrize("what", FITTING)
def test_fields_at_their_bounds_are_taken(caller: Caller, flows: dict[str, str], what: str) -> None:
    assert caller.start(flows["Silence"], **FITTING[what]).status == 201


UNFIT: dict[str, tuple[dict[str, Any], list[str]]] = {
    "input_text of 20,001 letters": ({"input_text": "é" * 20_001}, ["input_text"]),
    "client_reference of 257": ({"client_reference": "x" * 257}, ["client_reference"]),
    "an empty client_reference": ({"client_reference": ""}, ["client_reference"]),
    "client_reference beyond ASCII": ({"client_reference": "é"}, ["client_reference"]),
    "client_reference with a tab": ({"client_reference": "a\tb"}, ["client_reference"]),
    "eleven labels": ({"labels": {str(number): "x" for number in range(11)}}, ["labels"]),
    "labels that are no object": ({"labels": ["x"]}, ["labels"]),
    "an empty label name": ({"labels": {"": "x"}}, ["labels"]),
    "a label name of 65": ({"labels": {"k" * 65: "x"}}, ["labels." + "k" * 65]),
    "a label name beyond ASCII": ({"labels": {"é": "x"}}, ["labels.é"]),
    "a label value of 257": ({"labels": {"k": "v" * 257}}, ["labels.k"]),
    "a label value beyond ASCII": ({"labels": {"k": "é"}}, ["labels.k"]),
    "a label value that is no string": ({"labels": {"k": 1}}, ["labels.k"]),
    "a label without a value": ({"labels": {"k": None}}, ["labels.k"]),
    "parameters that are no object": ({"parameters": [1]}, ["parameters"]),
    "version 0": ({"version": 0}, ["version"]),
    "a negative version": ({"version": -(10**30)}, ["version"]),
}


@pytest.mark.parametrize("what", UNFIT)
def test_fields_beyond_their_bounds_are_refused_by_name(caller: Caller, flows: dict[str, str], what: str) -> None:
    fields, names = UNFIT[what]
    invalid(caller.start(flows["Silence"], **fields), *names)
    assert caller.get("/runs").json()["items"] == []


def test_problems_of_header_path_and_body_are_reported_together(resident: Caller) -> None:
    answer = resident.call(
        "POST",
        f"/workflows/{'w' * 129}/runs",
        json_body={"input_text": 1, "labels": {"k": 1, "l": 2}, "version": "x", "odd": 1},
    )
    invalid(answer, "Idempotency-Key", "workflow_id", "input_text", "labels.k", "labels.l", "version", "odd")


GOOD_KEYS = ("k", "a key with spaces", "k" * 128, "~!@#$%^&*(){}", '"quoted"')


@pytest.mark.parametrize("key", GOOD_KEYS)
def test_an_idempotency_key_of_printable_ascii_is_taken(caller: Caller, flows: dict[str, str], key: str) -> None:
    assert caller.start(flows["Silence"], key).status == 201
    assert caller.start(flows["Silence"], key).status == 200


BAD_KEYS: dict[str, list[bytes]] = {
    "missing": [],
    "empty": [b""],
    "129 characters": [b"k" * 129],
    "beyond ASCII": [b"k\xe9"],
    "UTF-8": ["ké".encode()],
    "a tab inside": [b"a\tb"],
    "repeated": [b"k", b"k"],
    "repeated and different": [b"k", b"l"],
}


@pytest.mark.parametrize("what", BAD_KEYS)
def test_a_missing_or_malformed_idempotency_key_is_refused_by_name(
    resident: Caller, flows: dict[str, str], what: str
) -> None:
    keys = [("Idempotency-Key", value) for value in BAD_KEYS[what]]
    head = request(
        "POST",
        f"/workflows/{flows['Silence']}/runs",
        *resident.credential_headers,
        *keys,
        ("Content-Length", "2"),
        ("Connection", "close"),
        body=b"{}",
    )
    invalid(exchange(resident.address, head), "Idempotency-Key")


def test_an_idempotency_key_on_another_route_is_ignored(resident: Caller) -> None:
    for key in ("k" * 129, ""):
        refused(resident.call("POST", "/runs/run_none/cancel", headers={"Idempotency-Key": key}), 404, "run_not_found")
        assert resident.get("/me", headers={"Idempotency-Key": key}).status == 200


def test_a_workflow_that_does_not_exist_is_not_found(resident: Caller) -> None:
    refused(resident.start("wf_none"), 404, "workflow_not_found")


@pytest.mark.parametrize("name", ["Drafted", "Withdrawn"])
def test_a_workflow_that_is_not_active_is_refused(resident: Caller, flows: dict[str, str], name: str) -> None:
    refused(resident.start(flows[name]), 409, "workflow_not_active")


@pytest.mark.parametrize("version", [2, 2**31, 2**63, 10**30])
def test_a_version_that_does_not_exist_is_refused_however_large(
    resident: Caller, flows: dict[str, str], version: int
) -> None:
    refused(resident.start(flows["Echo"], version=version), 422, "version_not_found")


def test_the_active_version_can_be_asked_for(caller: Caller, flows: dict[str, str]) -> None:
    answer = caller.start(flows["Silence"], version=1)
    assert (answer.status, answer.json()["version"]) == (201, 1)


@pytest.mark.parametrize(
    ("name", "word"), [("Unstaffed", "agent"), ("Retired ground", "environment"), ("From a bucket", "connect")]
)
def test_a_workflow_that_is_not_ready_is_refused_with_its_reasons(
    resident: Caller, flows: dict[str, str], name: str, word: str
) -> None:
    reasons = resident.get(f"/workflows/{flows[name]}").json()["readiness"]["reasons"]
    assert any(word in reason.lower() for reason in reasons)
    refused(resident.start(flows[name]), 409, "workflow_not_ready", {"reasons": reasons})
