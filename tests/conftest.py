"""What tests of several kinds need: databases, object storage that enforces its policies, and Redis."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest

from tests.support.planted import leaks
from tests.support.postgresql import Postgresql, postgresql
from tests.support.redis_server import RedisServer
from tests.support.s3_server import S3Server

LONG_FOLDERS = (
    *("benchmarks", "browser", "documents", "faults", "fuzz", "processes", "soak"),
    "unit/backend/sandbox/escapes",
)
"""Whose tests all take long: campaigns, browsers, made-up inputs, and deployments of many processes."""


def pytest_configure() -> None:
    """Has programs under test end by signals that a script or `nohup` which started the tests ignores, too."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves whole folders unread where none of their tests will run."""
    return True if config.option.markexpr == "not long" and _is_long(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what `make test` leaves to `make test-long`."""
    for item in items:
        if _is_long(item.path):
            item.add_marker(pytest.mark.long)


def _is_long(path: Path) -> bool:
    return any(path.is_relative_to(Path(__file__).parent / folder) for folder in LONG_FOLDERS)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--database",
        choices=("sqlite", "postgresql"),
        default="sqlite",
        help="on what the services under test keep their data",
    )


@pytest.fixture(scope="session", autouse=True)
def logs() -> Iterator[None]:
    """No log of any part that tests started may hold what they planted: credentials, inputs, what callers gave."""
    yield
    assert leaks() == []


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[Postgresql]:
    with postgresql() as server:
        yield server


class NewDatabase(Protocol):
    """Makes an empty database that lasts as long as the tests and gives its URL; None is the embedded one."""

    def __call__(self) -> str | None: ...


@pytest.fixture(scope="session")
def new_database(request: pytest.FixtureRequest) -> Iterator[NewDatabase]:
    if request.config.getoption("--database") == "sqlite":
        yield lambda: None
        return
    server: Postgresql = request.getfixturevalue("postgresql_server")
    with ExitStack() as stack:
        yield lambda: stack.enter_context(server.database())


@pytest.fixture
def database_url(request: pytest.FixtureRequest) -> str | None:
    """The URL of a database that is empty for the test; None for the embedded one."""
    if request.config.getoption("--database") == "sqlite":
        return None
    server: Postgresql = request.getfixturevalue("postgresql_server")
    server.empty()
    return server.shared


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
