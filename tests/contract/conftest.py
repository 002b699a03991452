"""One started service for most tests, its workflows, and callers with keys of their own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.conftest import NewDatabase
from tests.support.admin import Admin
from tests.support.client import Caller
from tests.support.service import Service


class NewCaller(Protocol):
    """Makes a caller with a fresh key; see `Admin.create_key` for the properties."""

    def __call__(self, **properties: Any) -> Caller: ...


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory, new_database: NewDatabase) -> Iterator[Service]:
    """A service that tests share: they change nothing in it that others see. It has its first key, so it serves."""
    service = Service(tmp_path_factory.mktemp("service"), database=new_database())
    service.start()
    try:
        service.new_caller()
        yield service
    finally:
        service.stop()


@pytest.fixture(scope="session")
def admin(service: Service) -> Admin:
    return service.admin


@pytest.fixture(scope="session")
def flows(admin: Admin) -> dict[str, str]:
    """The ids of the test workflows by name."""
    return admin.apply_test_workflows()


@pytest.fixture
def new_caller(service: Service) -> Iterator[NewCaller]:
    """Makes callers with fresh keys; what they leave in flight is cancelled."""
    made: list[Caller] = []

    def make(**properties: Any) -> Caller:
        made.append(service.new_caller(**properties))
        return made[-1]

    yield make
    for caller in made:
        caller.cancel_active()


@pytest.fixture
def caller(new_caller: NewCaller) -> Caller:
    """A caller with a fresh key of every scope."""
    return new_caller()


@pytest.fixture(scope="session")
def resident(service: Service) -> Iterator[Caller]:
    """A caller whose key lives as long as the service, for tests that only read."""
    caller = service.new_caller(name="resident")
    yield caller
    caller.cancel_active()


@pytest.fixture(scope="session")
def other_caller(service: Service) -> Caller:
    """Another caller, who started nothing."""
    return service.new_caller(name="other_caller")


@pytest.fixture(scope="session")
def echo_run(resident: Caller, flows: dict[str, str]) -> dict[str, Any]:
    """A completed run of Echo that nobody erases."""
    return resident.finished(flows["Echo"], input_text="hello", labels={"team": "blue"}, client_reference="order 7")


@pytest.fixture(scope="session")
def tree_run(resident: Caller, flows: dict[str, str]) -> dict[str, Any]:
    """A completed run with outputs of several kinds."""
    return resident.finished(flows["Tree"])


@pytest.fixture(scope="session")
def parked_run(resident: Caller, flows: dict[str, str]) -> dict[str, Any]:
    """A run that waits for a person for as long as the tests last."""
    return resident.parked(flows["Park"])


@pytest.fixture
def own_service(tmp_path: Path, new_database: NewDatabase) -> Iterator[Service]:
    """A service of one test's own, for what others must not see."""
    service = Service(tmp_path, database=new_database())
    service.start()
    try:
        yield service
    finally:
        service.stop()


@pytest.fixture(scope="session")
def changing_service(tmp_path_factory: pytest.TempPathFactory, new_database: NewDatabase) -> Iterator[Service]:
    """A second service, for tests that change what every caller sees; each puts back what it changed."""
    service = Service(tmp_path_factory.mktemp("changing"), database=new_database())
    service.start()
    try:
        service.admin.apply_test_workflows()
        yield service
    finally:
        service.stop()
