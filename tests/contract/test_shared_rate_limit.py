"""One limit over several edges, each a process of its own. (contract 22.4)"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.admin import Admin
from tests.support.client import Caller
from tests.support.part import Part, address_of
from tests.support.poll import until, within_one_minute
from tests.support.redis_server import PASSWORD, RedisServer

pytestmark = pytest.mark.long

EDGES, LIMIT = 2, 6


@pytest.fixture(scope="module")
def grpc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("backend")
    with Part.started(folder, "backend", "--data", str(folder / "data"), "--grpc", "127.0.0.1:0") as backend:
        yield backend.ready["grpc"]


@pytest.fixture
def admin(grpc: str) -> Iterator[Admin]:
    admin = Admin(grpc)
    yield admin
    admin.close()


@pytest.fixture
def edges(tmp_path: Path, grpc: str, own_redis: RedisServer) -> Iterator[list[Part]]:
    """Edges that share a Redis, whose address they have from a secret."""
    settings = tmp_path / "settings.toml"
    settings.write_text('[edge]\nredis_url = "secret:redis"\n[secrets]\nredis = "env:PLANT_REDIS"\n')
    options = ("edge", "--http", "127.0.0.1:0", "--grpc", grpc, "--config", str(settings))
    variables = {"PLANT_REDIS": own_redis.url, "WORKFLOW_API_LOG_LEVEL": "debug"}
    own_redis.start()
    with ExitStack() as stack:
        parts = [Part.started(tmp_path / f"edge-{n}", *options, variables=variables) for n in range(EDGES)]
        yield [stack.enter_context(part) for part in parts]


def callers(admin: Admin, edges: list[Part]) -> list[Caller]:
    """A caller of each edge, all with one new key that every edge knows."""
    key = admin.create_key(rate_limit_rpm=LIMIT)
    made = [Caller(address_of(edge.ready["base_address"]), key.key_id, key.key, key.external_id) for edge in edges]
    for caller in made:
        until(lambda: caller.get("/me").status not in {401, 503}, "the edge to know the key")  # noqa: B023
    return made


def statuses(callers: list[Caller], rounds: int) -> list[int]:
    return [caller.get("/me").status for _ in range(rounds) for caller in callers]


def test_edges_together_admit_exactly_the_limit(admin: Admin, edges: list[Part]) -> None:
    def attempt() -> list[int]:
        # Becoming known took one call of each.
        return statuses(callers(admin, edges), LIMIT)

    left = LIMIT - EDGES
    assert within_one_minute(attempt) == [200] * left + [429] * (LIMIT * EDGES - left)


def test_without_redis_each_edge_enforces_the_limit_and_serves(
    admin: Admin, edges: list[Part], own_redis: RedisServer
) -> None:
    def attempt() -> list[int]:
        own_redis.start()
        made = callers(admin, edges)
        own_redis.stop()
        return sorted(statuses(made, LIMIT))

    let_through = EDGES * (LIMIT - 1)
    assert within_one_minute(attempt) == [200] * let_through + [429] * (LIMIT * EDGES - let_through)
    for edge in edges:
        assert "Redis is unavailable" in edge.log()
        assert PASSWORD not in edge.log()
