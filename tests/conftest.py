"""What tests of several kinds need: object storage that enforces its policies, and Redis."""

import os
from collections.abc import Iterator

import pytest

from tests.support.redis_server import RedisServer
from tests.support.s3_server import S3Server


@pytest.fixture(scope="session")
def s3_process() -> Iterator[S3Server]:
    server = S3Server()
    yield server
    server.stop()


@pytest.fixture
def s3_server(s3_process: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """An empty S3 server, with an access key for whoever asks the environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "root")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield s3_process
    s3_process.reset()


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    """A Redis that a test starts and stops as it likes."""
    server = RedisServer()
    yield server
    server.close()


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """The address of a Redis that tests share: the one that `WORKFLOW_API_TEST_REDIS` names, else one of their own."""
    given = os.environ.get("WORKFLOW_API_TEST_REDIS")
    if given:
        yield given
        return
    server = RedisServer()
    server.start()
    yield server.url
    server.close()
