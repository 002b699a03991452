"""What a test of a connection shows of the store, within its time."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from backend.common.secrets import Secrets
from backend.resources.connectors.connection_tests import ConnectionTests, TooManyTestsError
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


@pytest.fixture
def answering() -> Iterator[Callable[[bytes, bytes], str]]:
    """Starts a server that answers every request with a head, and then a body for as long as it is read."""
    listening = socket.create_server(("127.0.0.1", 0))

    def answer(head: bytes, body: bytes) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with suppress(OSError), connection:
                    connection.recv(65_536)
                    connection.sendall(head)
                    while body:
                        connection.sendall(body)

    def start(head: bytes, body: bytes) -> str:
        threading.Thread(target=answer, args=(head, body), daemon=True).start()
        return f"http://127.0.0.1:{listening.getsockname()[1]}"

    yield start
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()


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


@pytest.mark.parametrize("status", [b"200 OK", b"403 Forbidden"])
def test_an_answer_without_an_end_is_not_read_to_its_end(
    answering: Callable[[bytes, bytes], str], status: bytes
) -> None:
    url = answering(b"HTTP/1.1 " + status + b"\r\nContent-Length: 9000000000\r\n\r\n", b" " * 1_000_000)
    outcome = ConnectionTests(seconds=60).run(connector(url, "in/"), SECRETS)
    assert not outcome.passed
    assert "could not be asked (AnswerTooLargeError)" in outcome.message


@pytest.mark.parametrize("status", [b"301 Moved Permanently", b"302 Found", b"307 Temporary Redirect"])
def test_redirects_are_not_followed(answering: Callable[[bytes, bytes], str], status: bytes) -> None:
    head = b"HTTP/1.1 " + status + b"\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    outcome = ConnectionTests(seconds=60).run(connector(answering(head, b""), "in/"), SECRETS)
    assert not outcome.passed
    assert "could not be asked (RedirectedError)" in outcome.message
