"""TestConnector: a real listing over HTTP, recorded per version (contract 24.11)."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from backend.resources.connectors.connection_tests import MOST_AT_ONCE
from backend.services.audit import sql as audit
from tests.services.calls import RefusedError
from tests.services.workflows.conftest import Workflows
from tests.support.poll import until
from workflow_api.v1 import workflows_pb2

LISTING = (
    '<?xml version="1.0"?><ListBucketResult><Name>docs</Name><KeyCount>0</KeyCount>'
    "<IsTruncated>false</IsTruncated></ListBucketResult>"
)
DENIED = (
    '<?xml version="1.0"?><Error><Code>AccessDenied</Code>'
    "<Message>User: arn:aws:iam::123456789012:user/own is not authorized</Message></Error>"
)
ROLE = (
    '<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>'
    "<AccessKeyId>ROLEKEY</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>"
    "<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"
)


class Store:
    """Answers listings of allowed prefixes as an object store does, and hands out one role."""

    def __init__(self) -> None:
        self.allowed = {"incoming/"}
        self.listed: list[tuple[str, str, str]] = []
        self.listing = LISTING
        self.role = (200, ROLE)
        self.answers = threading.Event()
        self.answers.set()
        store = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                prefix = parse_qs(urlsplit(self.path).query).get("prefix", [""])[0]
                who = self.headers["Authorization"].partition("Credential=")[2].partition("/")[0]
                store.listed.append((who, urlsplit(self.path).path, prefix))
                store.answers.wait(30)
                fits = prefix in store.allowed
                self._answer(200 if fits else 403, store.listing if fits else DENIED)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self._answer(*store.role)

            def _answer(self, status: int, text: str) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/xml")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "OWNKEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    store = Store()
    yield store
    store.stop()


def apply(workflows: Workflows, objects: Store, prefixes: str = "[incoming/]", role: str = "null") -> None:
    workflows.apply(
        f"""
        kind: Connector
        name: inbox
        type: s3
        bucket: docs
        prefixes: {prefixes}
        endpoint_url: {objects.url}
        role_arn: {role}
        """
    )


def outcome_of(workflows: Workflows, name: str = "inbox") -> workflows_pb2.ConnectorTest:
    answer: workflows_pb2.ConnectorTest = workflows.call("TestConnector", workflows_pb2.TestConnectorRequest(name=name))
    return answer


def test_a_successful_listing_passes_and_makes_the_workflow_ready(workflows: Workflows, objects: Store) -> None:
    apply(workflows, objects)
    (made,) = workflows.apply(
        "kind: Workflow\nname: W\nstatus: active\nparameters: [{name: p, type: s3_prefix, connector: inbox}]\n"
        "steps: [{step: a, approval: {title: t}}]\n"
    )
    assert workflows.terms(made.id).reasons == ("Connector 'inbox' has no recorded passing connection test.",)
    outcome = outcome_of(workflows)
    assert (outcome.passed, outcome.version, outcome.name) == (True, 1, "inbox")
    assert objects.listed == [("OWNKEY", "/docs", "incoming/")]
    assert workflows.terms(made.id).reasons == ()


def test_a_test_while_as_many_run_as_may_is_refused_for_a_few_seconds(workflows: Workflows, objects: Store) -> None:
    apply(workflows, objects)
    objects.answers.clear()
    with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
        running = [pool.submit(outcome_of, workflows) for _ in range(MOST_AT_ONCE)]
        try:
            until(lambda: len(objects.listed) == MOST_AT_ONCE, "every test to ask the store")
            with pytest.raises(RefusedError) as refused:
                outcome_of(workflows)
        finally:
            objects.answers.set()
        assert all(each.result().passed for each in running)
    assert (refused.value.reason, refused.value.retry_after) == ("rate_limited", 5)


def test_every_prefix_is_listed_and_one_that_is_denied_fails(workflows: Workflows, objects: Store) -> None:
    apply(workflows, objects, prefixes="[incoming/, private/]")
    outcome = outcome_of(workflows)
    assert not outcome.passed
    assert "s3://docs/private/" in outcome.message
    assert "AccessDenied" in outcome.message
    assert [prefix for _, _, prefix in objects.listed] == ["incoming/", "private/"]


def test_the_whole_bucket_is_listed_where_no_prefix_is_named(workflows: Workflows, objects: Store) -> None:
    objects.allowed = {""}
    apply(workflows, objects, prefixes="[]")
    assert outcome_of(workflows).passed
    assert objects.listed == [("OWNKEY", "/docs", "")]


def test_the_role_of_the_connector_is_assumed(workflows: Workflows, objects: Store) -> None:
    apply(workflows, objects, role="arn:aws:iam::123456789012:role/reader")
    assert outcome_of(workflows).passed
    assert objects.listed == [("ROLEKEY", "/docs", "incoming/")]


def test_a_store_that_does_not_answer_fails(workflows: Workflows, objects: Store) -> None:
    objects.stop()
    apply(workflows, objects)
    assert not outcome_of(workflows).passed


@pytest.mark.parametrize(
    "answer",
    [
        "<html><body>Welcome</body></html>",
        "<!DOCTYPE html><p>Welcome",
        "",
        "{}",
        "<ListAllMyBucketsResult><Buckets/></ListAllMyBucketsResult>",
        "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a</Key></Contents></ListBucketResult>",
    ],
)
def test_an_answer_that_is_no_listing_does_not_pass(workflows: Workflows, objects: Store, answer: str) -> None:
    objects.listing = answer
    apply(workflows, objects)
    outcome = outcome_of(workflows)
    expected = "Listing s3://docs/incoming/ failed: what answers there does not speak as S3 and STS do"
    assert not outcome.passed
    assert outcome.message.startswith(expected)


@pytest.mark.parametrize(
    ("status", "answer", "why"),
    [
        (500, "<!DOCTYPE html><p>Oh", "what answers there does not speak as S3 and STS do"),
        (500, "<html><body>Oh</body></html>", "what answers there does not speak as S3 and STS do (500)"),
        (200, "<html><body>Welcome</body></html>", "what answers there does not speak as S3 and STS do"),
        (200, "", "what answers there does not speak as S3 and STS do"),
        (200, ROLE.replace("SessionToken", "Token"), "what answers there does not speak as S3 and STS do"),
        (403, f"<ErrorResponse>{DENIED[21:]}</ErrorResponse>", "own credentials were denied AssumeRole (AccessDenied)"),
    ],
)
def test_a_role_that_cannot_be_assumed_fails_and_is_recorded(
    workflows: Workflows, objects: Store, status: int, answer: str, why: str
) -> None:
    objects.role = (status, answer)
    apply(workflows, objects, role="arn:aws:iam::123456789012:role/reader")
    outcome = outcome_of(workflows)
    assert not outcome.passed
    assert "failed: the role arn:aws:iam::123456789012:role/reader could not be assumed: " in outcome.message
    assert why in outcome.message
    assert objects.listed == []


def test_a_denial_shows_its_code_and_the_stores_message_is_logged(
    workflows: Workflows, objects: Store, caplog: pytest.LogCaptureFixture
) -> None:
    apply(workflows, objects, prefixes="[private/]")
    expected = (
        "Listing s3://docs/private/ failed: the service's own credentials were denied ListObjectsV2 (AccessDenied)"
    )
    assert outcome_of(workflows).message == expected
    assert "user/own is not authorized" in caplog.text


def test_without_credentials_the_outcome_says_what_to_do(
    workflows: Workflows, objects: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    for role in ("null", "arn:aws:iam::123456789012:role/reader"):
        apply(workflows, objects, role=role)
        message = outcome_of(workflows).message
        assert "there are no credentials to ask the store with" in message
        assert "Name a secret with an access key in the connector's field `secret`; or give the service" in message
    workflows.apply("kind: Connector\nname: inbox\ntype: s3\nbucket: docs\nsecret: inbox-key\n")
    assert outcome_of(workflows).message == (
        "Listing s3://docs/ failed: this deployment has no secret named 'inbox-key': name where it is kept in the "
        'settings, as `inbox-key = "env:VARIABLE"` below [secrets]. Its value is a JSON object '
        '{"access_key_id": "...", "secret_access_key": "..."}.'
    )


def test_outcomes_are_kept_per_version_and_audited(workflows: Workflows, objects: Store) -> None:
    apply(workflows, objects)
    assert outcome_of(workflows).passed
    apply(workflows, objects, prefixes="[private/]")
    assert (outcome_of(workflows).version, outcome_of(workflows).passed) == (2, False)
    rows = workflows.services.database.read(
        lambda tx: audit.trail(tx, audit.Filters(), since=0, before=audit.AuditPosition(2**62, ""), limit=10)[0]
    )
    assert [row.action for row in rows if row.action == "connector.tested"] == ["connector.tested"] * 3


def test_an_unknown_connector_is_not_found(workflows: Workflows) -> None:
    with pytest.raises(RefusedError) as refused:
        outcome_of(workflows, "nobody")
    assert refused.value.reason == "not_found"
