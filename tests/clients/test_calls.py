"""What the client sends again, when, and what it raises."""

import itertools
import logging
import pickle

import httpx
import pytest

from workflow_api_client import (
    ApiError,
    Client,
    ConfigurationError,
    ConnectionFailedError,
    UnexpectedAnswerError,
    errors,
)
from workflow_api_client.testing import FakeApi, approval
from workflow_api_client.testing.calls import EXTERNAL_ID, KEY


def keys_of(api: FakeApi) -> list[str]:
    return [each.headers["idempotency-key"] for each in api.requests if each.method == "POST"]


def test_a_start_is_sent_again_with_the_key_that_was_made_once(api: FakeApi) -> None:
    workflow = api.workflow("Digest")
    api.refuse("runtime_unreachable")
    api.break_connection()
    api.refuse("deployment_updating", retry_after=60)
    api.client().runs.start(workflow)
    assert len(keys_of(api)) == 4
    assert len(set(keys_of(api))) == 1
    assert len(api.runs) == 1


def test_two_starts_have_different_keys_and_a_given_one_is_kept(api: FakeApi) -> None:
    client, workflow = api.client(), api.workflow("Digest")
    started = [client.runs.start(workflow, idempotency_key=key).id for key in (None, None, "order 7", "order 7")]
    assert len(set(keys_of(api))) == 3
    assert len(set(started)) == 3
    assert started[2] == started[3]


@pytest.mark.parametrize("key", ["", "x" * 129, "naïve", "two\nlines"])
def test_an_idempotency_key_that_cannot_be_sent_is_refused(api: FakeApi, key: str) -> None:
    with pytest.raises(ValueError, match="1 to 128 printable ASCII characters"):
        api.client().runs.start(api.workflow("Digest"), idempotency_key=key)
    assert api.requests == []


@pytest.mark.parametrize("verb", ["cancel", "erase"])
def test_what_may_not_be_repeated_is_not_sent_again_once_it_may_have_arrived(api: FakeApi, verb: str) -> None:
    api.workflow("Digest", script=[approval("?", decision=None)])
    run = api.client().runs.start("Digest")
    before = len(api.requests)
    api.break_connection(sent=True)
    with pytest.raises(ConnectionFailedError) as broken:
        getattr(run, verb)()
    assert broken.value.sent
    api.refuse("runtime_unreachable")
    with pytest.raises(errors.RuntimeUnreachableError):
        getattr(run, verb)()
    assert len(api.requests) - before == 2


def test_it_is_sent_again_where_it_cannot_have_been_done(api: FakeApi) -> None:
    api.workflow("Digest", script=[approval("?", decision=None)])
    run = api.client().runs.start("Digest")
    api.break_connection(sent=False)
    api.refuse("rate_limited", retry_after=7)
    api.refuse("deployment_updating", retry_after=60)
    assert run.cancel("enough").status == "cancelled"
    assert api.requests[-1].body == {"reason": "enough"}


def test_a_call_beyond_the_rate_limit_is_sent_again_after_the_seconds_given(api: FakeApi) -> None:
    api.refuse("rate_limited", retry_after=42)
    api.client().me()
    assert [each.at for each in api.requests] == [0, 42]


def test_a_refusal_that_lasts_longer_than_the_caller_tries_is_raised_at_once(api: FakeApi) -> None:
    api.refuse("quota_exceeded", retry_after=50_000)
    with pytest.raises(errors.QuotaExceededError) as refused:
        api.client().runs.start(api.workflow("Digest"))
    assert refused.value.retry_after == 50_000
    assert api.clock.now() == 0


@pytest.mark.parametrize("code", ["runtime_unreachable", "runtime_error"])
def test_a_read_is_sent_again_ever_more_slowly_until_the_time_for_it_is_over(api: FakeApi, code: str) -> None:
    api.refuse(code, times=1000)
    with pytest.raises(ApiError) as refused:
        api.client(retry_seconds=60).me()
    assert refused.value.code == code
    times = [each.at for each in api.requests]
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert pauses[0] <= 0.5
    assert all(4 <= pause <= 8 for pause in pauses[5:])
    assert 52 <= times[-1] <= 60


@pytest.mark.parametrize("code", ["internal", "forbidden", "workflow_not_active", "license_unavailable"])
def test_a_refusal_that_stays_is_raised_at_once(api: FakeApi, code: str) -> None:
    api.refuse(code)
    with pytest.raises(ApiError) as refused:
        api.client().me()
    assert refused.value.code == code
    assert len(api.requests) == 1


def test_a_refusal_has_its_class_code_status_request_id_and_details(api: FakeApi) -> None:
    api.workflow("Digest", parameters=[{"name": "pages", "type": "integer", "required": True}])
    with pytest.raises(errors.InvalidParametersError) as refused:
        api.client().runs.start("Digest")
    assert (refused.value.code, refused.value.status) == ("invalid_parameters", 400)
    assert refused.value.details == [{"name": "pages", "reason": "is required"}]
    assert refused.value.request_id == api.requests[-1].headers["x-request-id"]
    assert "pages: is required." in str(refused.value)
    copy = pickle.loads(pickle.dumps(refused.value))  # noqa: S301 # made here
    assert (type(copy), str(copy)) == (type(refused.value), str(refused.value))


def test_a_code_that_this_release_does_not_know_is_an_error_of_the_api(api: FakeApi) -> None:
    api.refuse("from_the_future", status=418)
    with pytest.raises(ApiError) as refused:
        api.client().me()
    assert (type(refused.value), refused.value.code) == (ApiError, "from_the_future")
    assert refused.value.status == 418


@pytest.mark.parametrize(("status", "body"), [(200, b"<html>"), (404, b"<html>"), (302, b""), (401, b'{"error": 1}')])
def test_an_answer_of_a_proxy_says_so_and_no_redirect_is_followed(status: int, body: bytes) -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        return httpx.Response(status, content=body, headers={"Location": "http://elsewhere.invalid/"})

    client = Client("http://proxy.invalid", key=KEY, external_id=EXTERNAL_ID, transport=httpx.MockTransport(answer))
    with pytest.raises(UnexpectedAnswerError, match="is this the service's address"):
        client.me()
    assert asked == ["proxy.invalid"]


def test_an_answer_that_never_ends_is_given_up_at_the_time_given() -> None:
    class Drip(httpx.SyncByteStream):
        def __iter__(self):  # type: ignore[no-untyped-def] # of a stream
            while True:
                api.clock.sleep(1)
                yield b" "

    api = FakeApi()
    transport = httpx.MockTransport(lambda _: httpx.Response(200, stream=Drip()))
    client = Client("http://x", key=KEY, external_id=EXTERNAL_ID, transport=transport, clock=api.clock, timeout=9)
    with pytest.raises(ConnectionFailedError):
        client.runs.get("run_1").cancel()


def test_nothing_that_is_logged_or_shown_holds_a_credential(api: FakeApi, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    api.workflow("Digest")
    client = api.client()
    api.refuse("rate_limited", retry_after=1)
    list(client.runs.list(client_reference="confidential"))
    run = client.runs.start("Digest", input_text="confidential").wait()
    shown = "\n".join([caplog.text, repr(client), repr(run), repr(client.__dict__)])
    printed = [record for record in caplog.records if record.name == "workflow_api_client"]
    assert printed
    assert not any(secret in shown for secret in (KEY, KEY.partition(".")[2], EXTERNAL_ID))
    assert not any("confidential" in record.getMessage() for record in printed)


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("https://api.example.org", "https://api.example.org/api/v1"),
        ("https://api.example.org/", "https://api.example.org/api/v1"),
        ("https://api.example.org/api/v1", "https://api.example.org/api/v1"),
        ("http://127.0.0.1:8080/api/v1/", "http://127.0.0.1:8080/api/v1"),
        ("https://example.org/flows", "https://example.org/flows/api/v1"),
    ],
)
def test_the_address_may_have_the_base_path_or_not(url: str, base: str) -> None:
    assert repr(Client(url, key=KEY, external_id=EXTERNAL_ID)) == f"<Client of {base}>"


@pytest.mark.parametrize(
    ("url", "key", "external_id", "printed"),
    [
        ("api.example.org", KEY, EXTERNAL_ID, "https://host"),
        ("ftp://api.example.org", KEY, EXTERNAL_ID, "https://host"),
        ("https://api.example.org:port", KEY, EXTERNAL_ID, "https://host"),
        ("https://user:word@api.example.org", KEY, EXTERNAL_ID, "no user"),
        ("https://api.example.org", "", EXTERNAL_ID, "`key`"),
        ("https://api.example.org", "a secret\n", EXTERNAL_ID, "`key`"),
        ("https://api.example.org", KEY, "näive", "`external_id`"),
    ],
)
def test_what_does_not_fit_is_named_and_not_shown(url: str, key: str, external_id: str, printed: str) -> None:
    with pytest.raises(ConfigurationError, match=printed) as refused:
        Client(url, key=key, external_id=external_id)
    assert not any(secret and secret in str(refused.value) for secret in (key, external_id, "word@"))


def test_the_environment_says_where_and_whom_as(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("WORKFLOW_API_URL", "WORKFLOW_API_KEY", "WORKFLOW_API_EXTERNAL_ID")
    for name, value in zip(names, ("https://api.example.org", KEY, EXTERNAL_ID), strict=True):
        monkeypatch.setenv(name, value)
    assert repr(Client.from_env()) == "<Client of https://api.example.org/api/v1>"
    monkeypatch.delenv(names[1])
    with pytest.raises(ConfigurationError, match=names[1]):
        Client.from_env()
