from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from backend.common.secrets import Secrets, how_to_set
from backend.resources.connectors.object_storage import CredentialsError
from backend.runtime.agents import StepFailed
from backend.runtime.agents.tools import OUTSIDE, READ_BYTES, list_objects, read_object
from tests.unit.backend.runtime.bucket import Bucket, serve_bucket

__all__ = ["serve_bucket"]

NONE = Secrets()
Connectors = dict[str, dict[str, Any]]


@pytest.fixture
def connectors(bucket: Bucket) -> Connectors:
    bucket.objects = {"in/a.txt": "naïve".encode(), "in/b.txt": b"x" * (READ_BYTES + 1), "other/c.txt": b"secret"}
    declared = {"type": "s3", "bucket": "docs", "endpoint_url": bucket.url, "role_arn": None}
    return {"inbox": declared | {"prefixes": ["in/"]}, "whole": declared | {"prefixes": []}}


def test_objects_inside_the_prefix_are_listed_and_read(connectors: Connectors) -> None:
    assert list_objects(NONE, connectors, "inbox", "") == {"prefixes": ["in/"]}
    listed = [{"key": "in/a.txt", "size_bytes": 6}, {"key": "in/b.txt", "size_bytes": READ_BYTES + 1}]
    assert list_objects(NONE, connectors, "inbox", "in/") == {"objects": listed, "more": False}
    assert read_object(NONE, connectors, "inbox", "in/a.txt", 0) == {
        "text": "naïve",
        "size_bytes": 6,
        "next_offset": None,
    }
    assert read_object(NONE, connectors, "whole", "other/c.txt", 0)["text"] == "secret"


def test_a_large_object_is_read_in_parts(connectors: Connectors) -> None:
    first = read_object(NONE, connectors, "inbox", "in/b.txt", 0)
    assert (len(first["text"]), first["next_offset"]) == (READ_BYTES, READ_BYTES)
    last = read_object(NONE, connectors, "inbox", "in/b.txt", READ_BYTES)
    assert (last["text"], last["next_offset"]) == ("x", None)


@pytest.mark.parametrize("key", ["other/c.txt", "in/../other/c.txt", "", "/in/a.txt", "in"])
def test_nothing_outside_the_prefix_is_asked_for(connectors: Connectors, key: str) -> None:
    assert read_object(NONE, connectors, "inbox", key, 0) == OUTSIDE
    if key:
        assert list_objects(NONE, connectors, "inbox", key) == OUTSIDE


def test_only_connectors_of_the_step_are_there(connectors: Connectors) -> None:
    error = {"error": "the step declares no such connector (declared: inbox, whole)"}
    assert list_objects(NONE, connectors, "outbox", "") == read_object(NONE, connectors, "outbox", "a", 0) == error


@pytest.mark.parametrize(
    ("credentials", "cause", "final", "message"),
    [
        (
            {"secret": "theirs"},
            "SecretUnavailable",
            True,
            f"connector 'inbox': this deployment has no secret named 'theirs': {how_to_set('theirs')}",
        ),
        (
            {"role_arn": "arn:role"},
            "RoleNotAssumed",
            False,
            "connector 'inbox': the role arn:role could not be assumed: it is not allowed",
        ),
    ],
)
@pytest.mark.parametrize("call", [partial(read_object, offset=0), list_objects])
def test_credentials_that_cannot_be_had_fail_the_step(
    connectors: Connectors,
    call: Callable[..., Any],
    credentials: dict[str, str],
    cause: str,
    final: bool,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise CredentialsError("it is not allowed")

    monkeypatch.setattr("backend.resources.connectors.object_storage.aws.sts_client", refuse)
    with pytest.raises(StepFailed) as failed:
        call(NONE, {"inbox": connectors["inbox"] | credentials}, "inbox", "in/a.txt")
    assert (failed.value.type, failed.value.final, failed.value.message) == (cause, final, message)


def test_what_the_storage_refuses_is_told_by_its_code(connectors: Connectors, bucket: Bucket) -> None:
    assert read_object(NONE, connectors, "inbox", "in/gone.txt", 0) == {"error": "NoSuchKey"}
    bucket.denied = True
    assert list_objects(NONE, connectors, "inbox", "in/") == {"error": "AccessDenied"}


@pytest.mark.parametrize("answer", [b"<html><body>Welcome</body></html>", b""])
def test_what_answers_no_listing_is_no_storage(connectors: Connectors, bucket: Bucket, answer: bytes) -> None:
    bucket.failing, bucket.failure = {"": 2}, (200, answer)
    assert list_objects(NONE, connectors, "inbox", "in/") == {"error": "the object storage cannot be reached"}
