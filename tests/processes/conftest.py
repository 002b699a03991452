"""A shared deployment of several processes, for tests that restart what they end, and one per test."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.admin import Admin, Credentials
from tests.support.client import Caller
from tests.support.deployment import Deployment
from tests.support.part import Part
from tests.support.postgresql import Postgresql


@dataclass
class Cluster:
    """Two of each part on one database; edge n is in front of backend n."""

    deployment: Deployment
    database: str
    backends: list[Part]
    workers: list[Part]
    edges: list[Part]
    admins: list[Admin]
    flows: dict[str, str]

    def callers(self, **properties: object) -> list[Caller]:
        """One fresh key, at each edge."""
        credentials: Credentials = self.admins[0].create_key(**properties)  # type: ignore[arg-type]
        return [self.deployment.same_caller(edge, credentials) for edge in self.edges]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, postgresql_server: Postgresql) -> Iterator[Cluster]:
    with postgresql_server.database() as database:
        deployment = Deployment(
            tmp_path_factory.mktemp("cluster"), database, RUNTIME_DRAIN_SECONDS="30", BACKEND_DATABASE_CONNECTIONS="8"
        )
        try:
            backends = [deployment.backend() for _ in range(2)]
            workers = [deployment.worker() for _ in range(2)]
            edges = [deployment.edge(backend) for backend in backends]
            admins = [deployment.admin(backend) for backend in backends]
            flows = admins[0].apply_test_workflows()
            yield Cluster(deployment, database, backends, workers, edges, admins, flows)
        finally:
            deployment.stop()


@pytest.fixture
def deployment(tmp_path: Path, postgresql_server: Postgresql) -> Iterator[Deployment]:
    """For a test that ends parts for good."""
    with postgresql_server.database() as database:
        deployment = Deployment(tmp_path, database)
        yield deployment
        deployment.stop()
