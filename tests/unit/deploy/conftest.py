from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from tests.unit.deploy.fake_backend import FakeBackend


@pytest.fixture
def backend() -> Iterator[FakeBackend]:
    fake = FakeBackend()
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((fake,))
    fake.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    yield fake
    server.stop(None).wait()
