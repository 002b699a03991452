"""JSON bodies: which the edge accepts, their decoded values, and how the backend validates those."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

from backend.rpc.validation import validate
from backend.services.runs.start.rules import parse_start
from contract.refusals import Refusal
from contract.routes import RouteTable
from edge.codec.json_body import parse_json_body
from edge.dispatch import codecs_of
from tests.fuzz import json_reference
from tests.fuzz.target import Target
from workflow_api.v1 import runs_pb2

_ROUTES = RouteTable()
_CODECS = codecs_of(_ROUTES.routes)
_START = _ROUTES.match("POST", "/api/v1/workflows/wf_1/runs")
_CANCEL = _ROUTES.match("POST", "/api/v1/runs/run_1/cancel")
_ERASE = _ROUTES.match("DELETE", "/api/v1/runs/run_1/data")
_OFFSET = re.compile(r"malformed JSON at byte offset (\d+): .+")
_START_FIELDS = {"parameters", "input_text", "client_reference", "labels", "pii_policy_override", "version"}


def check(body: bytes) -> None:
    """Holds every step from the bytes of a body to what a start would record."""
    expected = json_reference.read(body) if body else json_reference.Reading(value={})
    try:
        value = parse_json_body(body)
    except Refusal as refusal:
        offset = _offset_of(refusal)
        assert not expected.accepted, f"refused at {offset}, and it is JSON"
        assert expected.allows(offset), (offset, expected)
        return
    assert expected.accepted, expected
    assert same(value, expected.value), (value, expected.value)
    _check_reason(_CANCEL, value)
    _check_reason(_ERASE, value)
    message = _decoded(_START, value, list(start_problems(value)))
    if message is not None:
        _check_start(cast("runs_pb2.StartRunRequest", message), value)


def _offset_of(refusal: Refusal) -> int:
    assert refusal.code == "invalid_request"
    assert isinstance(refusal.details, list)
    [problem] = refusal.details
    assert problem["name"] == "body"
    found = _OFFSET.fullmatch(problem["reason"])
    assert found, problem
    return int(found[1])


def _decoded(match: Any, value: Any, problems: list[str]) -> Any:
    """The message of a route's codec; None where it rightly names these problems."""
    try:
        message = _CODECS[match.route.rpc].request.decode(
            match.path_params, "", lambda name: ["k-1"] if name == "Idempotency-Key" else [], value
        )
    except Refusal as refusal:
        assert refusal.code == "invalid_request"
        details = cast("list[dict[str, str]]", refusal.details)
        assert len(details) == len(problems), (details, problems)
        assert not Counter(each["name"] for each in details) - Counter(problems), (details, problems)
        return None
    assert not problems, problems
    # Whatever the edge lets through, the backend's own bounds do.
    validate(message)
    return message


def _check_reason(match: Any, value: Any) -> None:
    message = _decoded(match, value, list(_reason_problems(value)))
    if message is not None:
        given = value.get("reason")
        assert (message.reason if message.HasField("reason") else None) == given


def _check_start(message: runs_pb2.StartRunRequest, value: dict[str, Any]) -> None:
    attempt = parse_start(message, "ak_1", 0)
    given = {name: member for name, member in value.items() if member is not None}
    assert attempt.input_text == given.get("input_text")
    assert attempt.client_reference == given.get("client_reference")
    assert json.loads(attempt.labels) == given.get("labels", {})
    assert same(attempt.parameters, given.get("parameters", {}))
    assert same(attempt.policy_override, given.get("pii_policy_override"))
    assert attempt.version == (min(given["version"], 2**63 - 1) if "version" in given else None)
    other_spelling = json.dumps(dict(reversed(value.items())), separators=("\t,", " :\n")).encode()
    again = _decoded(_START, parse_json_body(other_spelling), [])
    assert parse_start(again, "ak_1", 0).fingerprint == attempt.fingerprint


def _reason_problems(body: Any) -> Iterator[str]:
    if not isinstance(body, dict):
        yield "body"
        return
    yield from (name for name in body if name != "reason")
    reason = body.get("reason")
    if reason is not None and not (isinstance(reason, str) and len(reason) <= 500 and "\0" not in reason):
        yield "reason"


def start_problems(body: Any) -> Iterator[str]:
    """The names that an answer to a start with this body must hold. (contract 12)."""
    if not isinstance(body, dict):
        yield "body"
        return
    for name, value in body.items():
        if name not in _START_FIELDS:
            yield name
        elif value is not None:
            yield from _field_problems(name, value)


def _field_problems(name: str, value: Any) -> Iterator[str]:
    match name:
        case "parameters":
            fits = isinstance(value, dict) and not _has_nul(value)
        case "pii_policy_override":
            fits = not _has_nul(value)
        case "input_text":
            fits = isinstance(value, str) and len(value) <= 20_000 and "\0" not in value
        case "client_reference":
            fits = _printable(value, 1, 256)
        case "version":
            fits = type(value) is int and value >= 1
        case _:
            yield from _label_problems(value)
            return
    if not fits:
        yield name


def _label_problems(value: Any) -> Iterator[str]:
    if not isinstance(value, dict):
        yield "labels"
        return
    if len(value) > 10:
        yield "labels"
    for key, text in value.items():
        named = f"labels.{key}" if key else "labels"
        if not _printable(key, 1, 64):
            yield named
        if not _printable(text, 0, 256):
            yield named


def _printable(value: Any, least: int, most: int) -> bool:
    return isinstance(value, str) and least <= len(value) <= most and all(" " <= letter <= "~" for letter in value)


def _has_nul(value: Any) -> bool:
    waiting = [value]
    while waiting:
        match waiting.pop():
            case dict() as members:
                waiting += [*members, *members.values()]
            case list() as items:
                waiting += items
            case str() as text if "\0" in text:
                return True
    return False


def same(one: Any, other: Any) -> bool:
    """Whether two values of JSON are the same to the type and the last digit."""
    waiting = [(one, other)]
    while waiting:
        one, other = waiting.pop()
        if type(one) is not type(other):
            return False
        if isinstance(one, dict):
            if one.keys() != other.keys():
                return False
            waiting += [(member, other[name]) for name, member in one.items()]
        elif isinstance(one, list):
            if len(one) != len(other):
                return False
            waiting += zip(one, other, strict=True)
        elif repr(one) != repr(other):
            return False
    return True


def seeds() -> Iterator[bytes]:
    """Bodies of every kind of field, of everything that is refused, and some that look like both."""
    whole = {
        "parameters": {"a": [1, 2.5, True, None, {"b": "é"}], "n": 2**70},
        "input_text": "To be or not to be",
        "client_reference": "order 7",
        "labels": {"team": "blue", "empty": ""},
        "pii_policy_override": {"mode": "redact", "min_confidence": 0.5},
        "version": 3,
    }
    yield b""
    yield json.dumps(whole).encode()
    for name, value in whole.items():
        yield json.dumps({name: value}, ensure_ascii=False).encode()
        yield json.dumps({name: None}).encode()
    yield b'{"reason": "no longer needed"}'
    yield json.dumps({"labels": {f"k{number}": "v" for number in range(11)}}).encode()
    yield b'{"a":{"b":1},"c":[{"d":1,"\\u0064":2}]}'
    yield b'["\\ud83d\\ude00", "\\ud800", "\xed\xa0\x80"]'
    yield b"[NaN, Infinity, -0, -0.0, 1e400, 0.1e-5, 01, 12345678901234567890123]"
    yield b'\xef\xbb\xbf{"version": 1.0}'
    for depth in (254, 256, 998, 999, 1000, 1001, 1025):
        yield b"[" * depth + b"]" * depth
        yield b'{"parameters": {"a": ' + b"[" * (depth - 2) + b'"\\u0000"' + b"]" * (depth - 2) + b"}}"
        yield b'{"pii_policy_override": ' + b"[" * (depth - 1) + b"1" + b"]" * (depth - 1) + b"}"


TARGET = Target(
    name="json_bodies",
    check=check,
    seeds=seeds,
    words=(
        *(json.dumps(name).encode() + b":" for name in (*sorted(_START_FIELDS), "reason")),
        *(b"true", b"false", b"null", b"NaN", b"Infinity", b"1e999", b"-0", b"\\u0000", b"\\ud83d\\ude00", b"\\ud800"),
        *(b'"a":', b"{}", b"[]", b'""', b"\\u003a", b'\\"', b"\\\\", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"9" * 20),
        *(b"[" * 250, b"]" * 250, b'{"a":' * 100, b"}" * 100),
    ),
    longest=8_192,
)
