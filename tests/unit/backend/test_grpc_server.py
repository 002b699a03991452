from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.grpc_server import GrpcServer
from backend.storage.opening import DataFolder
from backend.storage.sqlite import SqliteDatabase


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    folder = DataFolder(tmp_path)
    database = folder.open_database()
    yield database
    database.close()
    folder.close()


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "localhost.test:0"])
def test_a_plain_server_listens_on_this_machine_only(database: SqliteDatabase, address: str) -> None:
    with pytest.raises(ValueError, match="Plain gRPC listens on loopback only"):
        GrpcServer({}, database, address)
