"""Credentials: both are needed, and every wrong one gets the same 401. (contract 8)"""

import base64
import json
import re
from typing import Any

import pytest

from tests.contract.conftest import NewCaller
from tests.support.client import Caller
from tests.support.expect import refused
from tests.support.poll import until
from tests.support.service import Service
from tests.support.wire import Answer, exchange, request
from workflow_api.v1 import keys_pb2

Headers = list[tuple[str | bytes, str | bytes]]


def wrong_credentials(caller: Caller, other: Caller, revoked: Caller) -> dict[str, Headers]:
    """Ways to be refused, each as the credential headers of a call."""
    key, external_id = f"Bearer {caller.key}", caller.external_id
    secret = caller.key.split(".", 1)[1]
    flipped = secret[:-1] + ("A" if secret[-1] != "A" else "B")
    basic = base64.b64encode(f"{caller.key_id}:{secret}".encode()).decode()

    def both(authorization: str | bytes, external: str | bytes = external_id) -> Headers:
        return [("Authorization", authorization), ("X-Service-Key-External-Id", external)]

    return {
        "nothing": [],
        "key only": [("Authorization", key)],
        "external id only": [("X-Service-Key-External-Id", external_id)],
        "wrong secret": both(f"Bearer {caller.key_id}.{flipped}"),
        "no secret": both(f"Bearer {caller.key_id}"),
        "short secret": both(f"Bearer {caller.key_id}.{secret[:15]}"),
        "long secret": both(f"Bearer {caller.key_id}." + "a" * 257),
        "secret with a dot": both(f"Bearer {caller.key}.x"),
        "unknown key id": both("Bearer ak_000000000000." + secret),
        "key id of another form": both("Bearer key_1." + secret),
        "wrong external id": both(key, "ake_" + "0" * 32),
        "malformed external id": both(key, "ake 1"),
        "external id of another key": both(key, other.external_id),
        "another scheme": both(f"Basic {basic}"),
        "no scheme": both(caller.key),
        "key twice": [*both(key), ("Authorization", key)],
        "external id twice": [*both(key), ("X-Service-Key-External-Id", external_id)],
        "bytes beyond ASCII": both(key.encode() + b"\xe9"),
        "bytes beyond ASCII in the external id": both(key, external_id.encode() + b"\xff"),
        "letters of another script": both("Bearer ак_1.".encode() + secret.encode()),
        "a trailing word": both(f"{key} x"),
        "a cookie": [("Cookie", f"session={caller.key}"), ("X-Service-Key-External-Id", external_id)],
        "revoked": [("Authorization", f"Bearer {revoked.key}"), ("X-Service-Key-External-Id", revoked.external_id)],
    }


def without_request_id(answer: Answer) -> tuple[int, list[tuple[str, str]], Any]:
    """What an answer says, its request id and its clock left out."""
    shown = [(name, value) for name, value in answer.headers.items() if name.lower() not in {"x-request-id", "date"}]
    request_id = answer.headers["X-Request-Id"].encode()
    return answer.status, shown, answer.body.replace(request_id, b"-")


def test_every_wrong_credential_gets_one_and_the_same_401(new_caller: NewCaller, service: Service) -> None:
    caller, other, revoked = new_caller(), new_caller(), new_caller()
    service.admin.keys.RevokeKey(keys_pb2.RevokeKeyRequest(key_id=revoked.key_id))
    until(lambda: revoked.get("/me").status == 401, "the revocation")
    wrong = wrong_credentials(caller, other, revoked)
    assert len(wrong) >= 16
    answers = {}
    for what, headers in wrong.items():
        answer = exchange(service.address, request("GET", "/me", *headers, ("Connection", "close")))
        refused(answer, 401, "unauthorized")
        answers[what] = without_request_id(answer)
    first = answers["nothing"]
    assert {what: answer for what, answer in answers.items() if answer != first} == {}


def test_a_401_carries_the_bearer_challenge(service: Service) -> None:
    answer = service.call("GET", "/me")
    refused(answer, 401, "unauthorized")
    assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "bEaReR"])
def test_the_scheme_is_matched_in_any_case(resident: Caller, scheme: str) -> None:
    assert resident.get("/me", headers={"Authorization": f"{scheme} {resident.key}"}).status == 200


def test_a_cookie_beside_the_credentials_is_ignored(resident: Caller) -> None:
    assert resident.get("/me", headers={"Cookie": "session=1"}).status == 200


def test_credentials_in_the_query_count_for_nothing(service: Service, resident: Caller) -> None:
    answer = service.call("GET", f"/me?key={resident.key}&external_id={resident.external_id}")
    refused(answer, 401, "unauthorized")


def test_credentials_are_issued_in_their_form(resident: Caller) -> None:
    assert re.fullmatch(r"ak_[0-9a-f]{12}", resident.key_id)
    key_id, secret = resident.key.split(".", 1)
    assert key_id == resident.key_id
    assert re.fullmatch(r"[A-Za-z0-9_-]{16,256}", secret)
    assert re.fullmatch(r"ake_[0-9a-f]{32}", resident.external_id)


def test_a_401_names_no_part(service: Service, resident: Caller) -> None:
    answer = service.call("GET", "/me", {**resident.credentials, "X-Service-Key-External-Id": "ake_" + "0" * 32})
    shown = json.dumps(answer.error).replace(answer.error["request_id"], "")
    assert resident.key_id not in shown
    assert "external" not in shown.lower()
