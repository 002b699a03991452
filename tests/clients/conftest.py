"""A fake service for most tests, and a real one with the workflows of the contract's tests."""

from collections.abc import Iterator

import pytest

from tests.support.client import Caller
from tests.support.service import Service
from workflow_api_client import Client
from workflow_api_client.testing import FakeApi


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture(params=["holds", "older"])
def either_api(request: pytest.FixtureRequest) -> FakeApi:
    """A service that holds answers and streams events, and one that does neither."""
    is_new = request.param == "holds"
    return FakeApi(waits=is_new, streams=is_new)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("service"))
    service.start()
    try:
        service.admin.apply_test_workflows()
        yield service
    finally:
        service.stop()


@pytest.fixture(scope="module")
def caller(service: Service) -> Caller:
    return service.new_caller(rate_limit_rpm=1000)


@pytest.fixture(scope="module")
def client(caller: Caller) -> Iterator[Client]:
    host, port = caller.address
    with Client(f"http://{host}:{port}", key=caller.key, external_id=caller.external_id) as client:
        yield client
