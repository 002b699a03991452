"""Reading a body: malformed JSON is refused before the key is checked, with its byte offset. (contract 4.8, 4.9)"""

import gzip
import re
from typing import Any

import pytest

from tests.contract.conftest import NewCaller
from tests.support.client import Caller
from tests.support.expect import invalid, refused
from tests.support.service import Service
from tests.support.wire import exchange, request

MANY = dict.fromkeys(map(str, range(5_000)), 0)
START = "/workflows/wf_none/runs"
BODY_ROUTES = (("POST", START), ("POST", "/runs/run_none/cancel"), ("DELETE", "/runs/run_none/data"))

# Malformed bodies, with the byte offsets (first, last) that name the fault.
MALFORMED = {
    "cut short": (b'{"a": 1', 7, 7),
    "an open brace": (b"{", 1, 1),
    "a bare word": (b'{"a": nothing}', 6, 7),
    "a bare word after a letter of two bytes": ('{"é": x}'.encode(), 7, 7),
    "a bare word after a letter of three bytes": ('{"あ": x}'.encode(), 8, 8),
    "a bare word after a letter of four bytes": ('{"😀": x}'.encode(), 9, 9),
    "a trailing comma": ('{"é": 1,}'.encode(), 8, 9),
    "single quotes": (b"{'a': 1}", 1, 1),
    "two values": (b"{} {}", 3, 3),
    "white space only": (b" \n ", 0, 3),
    "a byte order mark": (b"\xef\xbb\xbf{}", 0, 0),
    "invalid UTF-8": (b'{"input_text": "\xff"}', 16, 16),
    "invalid UTF-8 after valid": (b'{"input_text": "\xc3\xa9\xff"}', 18, 18),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), 0, 1),
    "a surrogate in UTF-8": (b'{"input_text": "\xed\xa0\x80"}', 16, 16),
    "a lone high surrogate": (rb'{"input_text": "\ud800"}', 15, 22),
    "a lone low surrogate": (rb'{"input_text": "\udc00"}', 15, 22),
    "a lone surrogate in a name": (rb'{"\udc00": 1}', 1, 8),
    "NaN": (b'{"version": NaN}', 12, 13),
    "Infinity": (b'{"version": Infinity}', 12, 13),
    "minus Infinity": (b'{"version": -Infinity}', 12, 14),
    "a number beyond a double": (b'{"parameters": {"n": 1e400}}', 21, 26),
    "a negative number beyond a double": (b'{"parameters": {"n": -1e400}}', 21, 27),
    "an integer beyond a double": (b'{"parameters": {"n": 1' + b"0" * 309 + b"}}", 21, 331),
    "a leading zero": (b'{"version": 01}', 12, 14),
    "a control character": (b'{"input_text": "\n"}', 15, 17),
    "a member named twice": (b'{"version": 1, "version": 2}', 15, 27),
    "a member named twice by an escape": (rb'{"version": 1, "versio\u006e": 2}', 15, 32),
    "a member named twice far inside": ('{"labels": {"é": "1", "é": "2"}}'.encode(), 23, 33),
    "nesting beyond a thousand": (b'{"parameters": ' + b"[" * 1000 + b"]" * 1000 + b"}", 1014, 1016),
    "nesting beyond all measure": (b"[" * 200_000, 1000, 1001),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_malformed_json_is_refused_before_the_key_with_its_byte_offset(service: Service, what: str) -> None:
    body, first, last = MALFORMED[what]
    [reason] = invalid(service.call("POST", START, body=body), "body")
    offsets = [int(number) for number in re.findall(r"\d+", reason)]
    assert any(first <= offset <= last for offset in offsets), reason


@pytest.mark.parametrize(("method", "path"), BODY_ROUTES)
def test_each_route_that_takes_a_body_checks_it_first(service: Service, method: str, path: str) -> None:
    invalid(service.call(method, path, body=b'{"reason": '), "body")


def test_the_offset_counts_bytes_of_a_body_sent_in_chunks(service: Service) -> None:
    head = request("POST", START, ("Transfer-Encoding", "chunked"), ("Connection", "close"))
    body = '{"é": x}'.encode()
    chunks = b"".join(b"1\r\n" + bytes([byte]) + b"\r\n" for byte in body)
    [reason] = invalid(exchange(service.address, head + chunks + b"0\r\n\r\n"), "body")
    assert "7" in re.findall(r"\d+", reason)


@pytest.mark.parametrize("route", ["/me", "/runs", "/health"])
def test_a_body_on_a_route_that_takes_none_is_not_read_as_json(resident: Caller, route: str) -> None:
    assert resident.call("GET", route, body=b"{").status == 200


@pytest.mark.parametrize("body", [b"[]", b"1", b'"text"', b"null", b"true"])
def test_a_body_that_is_no_object_is_refused_after_the_key(service: Service, resident: Caller, body: bytes) -> None:
    refused(service.call("POST", "/runs/run_none/cancel", body=body), 401, "unauthorized")
    invalid(resident.call("POST", "/runs/run_none/cancel", body=body), "body")


def test_well_formed_json_at_the_limits_goes_on_to_the_key(service: Service) -> None:
    bodies = (
        b'{"parameters": ' + b"[" * 999 + b"]" * 999 + b"}",
        b'{"version": 1' + b"0" * 30 + b"}",
        b'{"parameters": {"n": 1e308, "m": 1e-400, "k": -0.0}}',
        rb'{"input_text": "\ud83d\ude00 \u00e9"}',
        b" \t\r\n{}\n",
        b"",
    )
    for body in bodies:
        refused(service.call("POST", START, body=body), 401, "unauthorized")


def test_a_body_of_no_bytes_counts_as_an_empty_object(caller: Caller, flows: dict[str, str]) -> None:
    path = f"/workflows/{flows['Silence']}/runs"
    assert caller.call("POST", path, headers={"Idempotency-Key": "empty"}, body=b"").status == 201
    replay = caller.call("POST", path, headers={"Idempotency-Key": "empty"}, body=b"{}")
    assert replay.status == 200


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "", "multipart/form-data"])
def test_the_content_type_of_a_request_is_ignored(resident: Caller, content_type: str) -> None:
    answer = resident.call(
        "POST", "/runs/run_none/cancel", headers={"Content-Type": content_type}, body=b'{"reason": "x"}'
    )
    refused(answer, 404, "run_not_found")


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "GZIP", "identity, gzip"])
def test_a_compressed_body_is_refused_and_never_decompressed(resident: Caller, encoding: str) -> None:
    for body in (gzip.compress(b"{}"), b"{}"):
        answer = resident.call("POST", "/runs/run_none/cancel", headers={"Content-Encoding": encoding}, body=body)
        invalid(answer, "body")


def test_the_identity_encoding_is_none(resident: Caller) -> None:
    answer = resident.call("POST", "/runs/run_none/cancel", headers={"Content-Encoding": "identity"}, body=b"{}")
    refused(answer, 404, "run_not_found")


@pytest.mark.parametrize(("method", "path"), BODY_ROUTES)
def test_an_unknown_body_field_is_refused_by_name(resident: Caller, method: str, path: str) -> None:
    answer = resident.call(method, path, headers={"Idempotency-Key": "k"}, body=b'{"colour": 1, "size": null}')
    invalid(answer, "colour", "size")


@pytest.mark.parametrize(
    ("body", "name", "reason"),
    [
        ({"parameters": MANY}, "parameters", "must have at most 1,000 members, not 5,000"),
        ({"labels": MANY}, "labels", "must have at most 10 members, not 5,000"),
        (MANY, "body", "has 5,000 fields that are not fields of this request"),
    ],
    ids=["parameters", "labels", "unknown fields"],
)
def test_an_object_with_far_too_many_members_is_one_problem_with_its_count(
    resident: Caller, flows: dict[str, str], body: dict[str, Any], name: str, reason: str
) -> None:
    assert invalid(resident.start(flows["Typed"], **body), name) == [reason]


def test_a_hundred_unknown_fields_are_a_hundred_problems(resident: Caller, flows: dict[str, str]) -> None:
    fields: dict[str, Any] = {f"field {number}": 0 for number in range(100)}
    invalid(resident.start(flows["Typed"], **fields), *fields)


@pytest.mark.parametrize(("method", "path"), BODY_ROUTES)
def test_an_internal_field_of_a_request_is_unknown_to_callers(resident: Caller, method: str, path: str) -> None:
    body = b'{"run_id": "x", "workflow_id": "x", "idempotency_key": "x", "triggered_by": "console"}'
    answer = resident.call(method, path, headers={"Idempotency-Key": "k"}, body=body)
    invalid(answer, "run_id", "workflow_id", "idempotency_key", "triggered_by")


def test_null_counts_as_absent(new_caller: NewCaller, flows: dict[str, str]) -> None:
    fields = ("parameters", "input_text", "client_reference", "labels", "pii_policy_override", "version")
    answer = new_caller().start(flows["Silence"], **dict.fromkeys(fields))
    assert answer.status == 201, answer
    assert answer.json()["labels"] == {}
    assert answer.json()["client_reference"] is None


@pytest.mark.parametrize(("field", "value"), [("input_text", "a\0b"), ("client_reference", "\0"), ("reason", "a\0b")])
def test_a_null_character_in_a_string_is_refused_by_name(resident: Caller, field: str, value: str) -> None:
    if field == "reason":
        invalid(resident.post("/runs/run_none/cancel", {"reason": value}), "reason")
    else:
        invalid(resident.start("wf_none", **{field: value}), field)


@pytest.mark.parametrize("version", [True, 1.0, "1", 1.5, [1], {"n": 1}])
def test_an_integer_is_no_boolean_fraction_or_string(resident: Caller, version: object) -> None:
    invalid(resident.start("wf_none", version=version), "version")


@pytest.mark.parametrize("reason", [1, True, ["x"], {"a": "b"}])
def test_a_string_field_accepts_only_strings(resident: Caller, reason: object) -> None:
    invalid(resident.post("/runs/run_none/cancel", {"reason": reason}), "reason")
