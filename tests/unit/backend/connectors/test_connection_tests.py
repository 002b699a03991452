"""What a test of a connection shows of the store, within its time."""

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from backend.connectors.connection_tests import ConnectionTests, TooManyTestsError
from backend.secrets import Secrets
from tests.support.s3_server import S3Server

SECRET = "the-secret-of-the-access-key"
SECRETS = Secrets(
    {"inbox-key": "env:KEY"}, {"KEY": f'{{"access_key_id": "AKIAEXAMPLE", "secret_access_key": "{SECRET}"}}'}
)
Connector = Callable[..., dict[str, Any]]


def connector(url: str, *prefixes: str) -> dict[str, Any]:
    return {"bucket": "docs", "prefixes": prefixes, "endpoint_url": url, "secret": "inbox-key", "role_arn": None}


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def test_every_place_is_shown_with_the_stores_status_and_whether_it_is_empty(s3_server: S3Server) -> None:
    s3_server.fill("docs", {"in/a.txt": b"a"})
    outcome = ConnectionTests().run(connector(s3_server.url, "in/", "out/"), SECRETS)
    shown = [(check.place, check.passed, check.http_status, check.empty) for check in outcome.checks]
    assert shown == [("s3://docs/in/", True, 200, False), ("s3://docs/out/", True, 200, True)]


def test_the_stores_own_words_are_shown_with_what_to_do(s3_server: S3Server) -> None:
    outcome = ConnectionTests().run(connector(s3_server.url, "in/"), SECRETS)
    (check,) = outcome.checks
    assert (outcome.passed, check.http_status, check.code) == (False, 404, "NoSuchBucket")
    assert "The specified bucket does not exist" in check.answer
    assert check.remedy == "Correct `bucket` of the connector, or create the bucket in this store."


def test_denied_credentials_are_told_what_they_need_and_never_shown(s3_server: S3Server) -> None:
    s3_server.fill("docs", {})
    s3_server.enforce()
    outcome = ConnectionTests().run(connector(s3_server.url, "in/"), SECRETS)
    (check,) = outcome.checks
    assert (check.http_status, check.code) == (403, "InvalidAccessKeyId")
    assert check.remedy == "The store does not know the access key: write a valid one into the secret."
    assert SECRET not in str(outcome)


def test_an_address_without_a_store_is_told(silent: str) -> None:
    outcome = ConnectionTests().run(connector("http://127.0.0.1:1", "in/"), SECRETS)
    (check,) = outcome.checks
    assert (outcome.passed, check.http_status) == (False, 0)
    assert check.remedy.startswith("Check `endpoint_url` of the connector: the machine of the backend must reach it")


def test_a_store_that_does_not_answer_in_time_fails_and_holds_a_place_until_it_does(silent: str) -> None:
    tests = ConnectionTests(seconds=0.3, most_at_once=1)
    outcome = tests.run(connector(silent, "in/"), SECRETS)
    assert (outcome.passed, outcome.checks[0].answer) == (False, "there was no whole answer within 0.3 seconds")
    with pytest.raises(TooManyTestsError):
        tests.run(connector(silent, "in/"), SECRETS)
    assert any(thread.name == "connection-test" and thread.daemon for thread in threading.enumerate())
