"""What tests of several kinds need: databases, object storage that enforces its policies, and Redis."""

import gc
import os
import re
import signal
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Protocol

import pytest

from tests.support.planted import leaks
from tests.support.postgresql import Postgresql, postgresql
from tests.support.redis_server import RedisServer
from tests.support.s3_server import S3Server

# jsonschema would make 38 parsers for formats of IRIs when it is imported, which takes a second in each process, and no
# schema of ours has these formats.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type] # by which an import fails

LONG_FOLDERS = (
    *("benchmarks", "browser", "documents", "faults", "fuzz", "processes", "soak"),
    "unit/backend/isolation/sandbox/escapes",
)
"""Whose tests all take long: campaigns, browsers, made-up inputs, and deployments of many processes."""
LONG_BY_FIXTURES = ("unit/backend/isolation/sandbox", "unit/backend/runtime/agents")
"""Where parameters of fixtures are marked; every other file that has long tests marks them itself."""
_LONG_MODULE = re.compile(r"^pytestmark = (pytest\.mark\.long$|\[pytest\.mark\.long\b)", re.MULTILINE)


def pytest_configure() -> None:
    """Has programs under test end by signals that a script or `nohup` which started the tests ignores, too."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collects without the garbage collector, which would look through all tests again and again and free none."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        # At the default threshold a ninth of the processor time of a test process goes into collections.
        gc.set_threshold(20_000, 20, 10)
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves unread whole folders, or files, where none of their tests will run."""
    wanted = config.option.markexpr
    if wanted == "not long":
        return True if _is_long(collection_path) or _is_long_by_mark(collection_path) else None
    if wanted == "long" and collection_path.name.startswith("test_"):
        return None if _may_be_long(collection_path) else True
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what `make test` leaves to `make test-long`, and has each process begin with its share of the slowest."""
    _spread_slowest(items)
    for item in items:
        if _is_long(item.path):
            item.add_marker(pytest.mark.long)
        elif item.get_closest_marker("long") and not _may_be_long(item.path):
            raise pytest.UsageError(f"{item.path}: long by a fixture, so add its folder to LONG_BY_FIXTURES")


def _spread_slowest(items: list[pytest.Item]) -> None:
    """Places tests that may take longer than others at equal distances, between modules."""
    slowest = [item for item in items if _seconds(item) > float(item.config.getini("timeout"))]
    others = [item for item in items if item not in slowest]
    for number, item in reversed(list(enumerate(slowest))):
        place = number * len(others) // len(slowest)
        while 0 < place < len(others) and others[place - 1].path == others[place].path:
            place += 1
        others.insert(place, item)
    items[:] = others


def _seconds(item: pytest.Item) -> float:
    """Returns the time-out of a test's own; 0 without one."""
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0]) if marker is not None else 0.0


@cache
def _is_long(path: Path) -> bool:
    return any(path.is_relative_to(Path(__file__).parent / folder) for folder in LONG_FOLDERS)


def _is_long_by_mark(path: Path) -> bool:
    return path.name.startswith("test_") and bool(_LONG_MODULE.search(path.read_text(encoding="utf-8")))


def _may_be_long(path: Path) -> bool:
    by_fixtures = any(path.is_relative_to(Path(__file__).parent / folder) for folder in LONG_BY_FIXTURES)
    return _is_long(path) or by_fixtures or "pytest.mark.long" in path.read_text(encoding="utf-8")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--database",
        choices=("sqlite", "postgresql"),
        default="sqlite",
        help="on what the services under test keep their data",
    )
    parser.addoption(
        "--record-design", action="store_true", help="record how the console's components look, in tests/browser/design"
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
def no_authorities(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Has clients of models read none of the machine's authorities, 20 ms each: providers of tests are plain HTTP."""
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path_factory.getbasetemp()))


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
