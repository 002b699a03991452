"""Credentials of connectors, tested with a server that enforces them."""

import json
from typing import Any

import pytest
from botocore.credentials import RefreshableCredentials
from botocore.exceptions import ClientError, EndpointConnectionError

from backend.common.secrets import Secrets
from backend.resources.connectors.connection_tests import ConnectionTests
from backend.resources.connectors.object_storage import CredentialsError, loggable, s3_client
from tests.support.s3_server import S3Server


def one_secret(value: str) -> Secrets:
    return Secrets({"inbox-key": "env:KEY"}, {"KEY": value})


def secret_of(key: tuple[str, str]) -> Secrets:
    return one_secret(json.dumps({"access_key_id": key[0], "secret_access_key": key[1]}))


def connector(server: S3Server, **fields: Any) -> dict[str, Any]:
    return {"bucket": "docs", "prefixes": ["in/"], "endpoint_url": server.url, "secret": "inbox-key"} | (
        {"role_arn": None} | fields
    )


def try_connection(connector: dict[str, Any], secrets: Secrets) -> tuple[bool, str]:
    outcome = ConnectionTests().run(connector, secrets)
    return outcome.passed, outcome.message


def test_a_named_secret_is_used_instead_of_the_processs_own_credentials(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_server.fill("docs", {})
    may, may_not = s3_server.user("may", "s3:ListBucket"), s3_server.user("may-not")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", may_not[0])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", may_not[1])
    s3_server.enforce()
    assert try_connection(connector(s3_server), secret_of(may)) == (True, "Listed in/ of docs.")
    passed, message = try_connection(connector(s3_server, secret=None), secret_of(may))
    assert (passed, "the service's own credentials were denied" in message) == (False, True)
    passed, message = try_connection(connector(s3_server), secret_of(may_not))
    assert (passed, "the credentials of secret 'inbox-key' were denied" in message) == (False, True)


def test_a_role_is_assumed_with_the_named_secret(s3_server: S3Server) -> None:
    s3_server.fill("docs", {})
    key = s3_server.user("worker", "sts:AssumeRole")
    role = s3_server.role("reader", "worker", "s3:ListBucket")
    s3_server.enforce()
    assert try_connection(connector(s3_server, role_arn=role), secret_of(key))[0]


def test_a_role_is_assumed_anew_before_its_session_ends(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for bound in ("_advisory_refresh_timeout", "_mandatory_refresh_timeout"):
        monkeypatch.setattr(RefreshableCredentials, bound, 2 * 3600)
    s3_server.fill("docs", {})
    key = s3_server.user("worker", "sts:AssumeRole")
    role = s3_server.role("reader", "worker", "s3:ListBucket")
    s3_server.enforce()
    client = s3_client(connector(s3_server, role_arn=role), secret_of(key))
    used = set()
    client.meta.events.register(
        "before-send.s3", lambda request, **_: used.add(request.headers["x-amz-security-token"])
    )
    for _ in range(3):
        client.list_objects_v2(Bucket="docs")
    assert len(used) == 3
    s3_server.forbid("worker")
    with pytest.raises(CredentialsError, match=f"^the role {role} could not be assumed: "):
        client.list_objects_v2(Bucket="docs")


def test_a_connector_of_an_earlier_release_has_no_secret(s3_server: S3Server) -> None:
    s3_server.fill("docs", {})
    old = connector(s3_server)
    del old["secret"]
    assert try_connection(old, Secrets())[0]


@pytest.mark.parametrize("value", ["key", "[]", "null", "{}", '{"access_key_id": "a", "secret_access_key": 1}'])
def test_a_secret_of_the_wrong_form_is_told_and_not_shown(s3_server: S3Server, value: str) -> None:
    with pytest.raises(CredentialsError, match=r"^the secret 'inbox-key' must be a JSON object with access_key_id and"):
        s3_client(connector(s3_server), one_secret(value))


def test_a_secret_that_there_is_not_is_told(s3_server: S3Server) -> None:
    passed, message = try_connection(connector(s3_server, secret="other"), one_secret(""))
    assert not passed
    assert message.startswith("Listing s3://docs/ failed: this deployment has no secret named 'other': name where")


@pytest.mark.parametrize(
    ("words", "logged"),
    [
        ("User: arn:aws:iam::1:user/own is not authorized", "User: arn:aws:iam::1:user/own is not authorized"),
        (
            'User u may not s3:GetObject on resource: "arn:aws:s3:::docs/Hanna P.txt" because no policy allows it',
            "User u may not s3:GetObject on a resource because no policy allows it",
        ),
        (
            "User u may not s3:GetObject on resource: arn:aws:s3:::docs/hanna",
            "User u may not s3:GetObject on a resource",
        ),
    ],
)
def test_a_stores_words_are_logged_without_the_object_that_they_are_about(words: str, logged: str) -> None:
    error = ClientError({"Error": {"Code": "AccessDenied", "Message": words}}, "GetObject")
    assert loggable(error).endswith(f"operation: {logged}")


def test_what_is_no_answer_of_a_store_is_logged_by_its_kind() -> None:
    error = EndpointConnectionError(endpoint_url="http://127.0.0.1:1/docs/hanna.txt")
    assert loggable(error) == "EndpointConnectionError"
