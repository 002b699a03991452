"""Processes that cannot work together are refused at the start, where one of them can know."""

from pathlib import Path

import pytest

from tests.support.part import Part, refused
from tests.support.postgresql import Postgresql


def listening(command: str, data: Path) -> tuple[str, ...]:
    http = ("--http", "127.0.0.1:0") if command == "serve" else ()
    return (command, "--data", str(data), "--grpc", "127.0.0.1:0", *http)


@pytest.mark.parametrize("command", ["serve", "backend"])
def test_a_data_folder_belongs_to_one_process(tmp_path: Path, command: str) -> None:
    data = tmp_path / "data"
    with Part.started(tmp_path / "first", *listening("serve", data)):
        line = refused(*listening(command, data))
    assert line == f"The data folder {data} is in use by another workflow-api process."


@pytest.mark.parametrize("command", ["serve", "backend"])
def test_folders_of_objects_that_are_not_shared_do_not_go_with_one_database(
    tmp_path: Path, command: str, postgresql_server: Postgresql
) -> None:
    with postgresql_server.database() as database:
        variables = {"WORKFLOW_API_BACKEND_DATABASE": "env:DATABASE", "DATABASE": database}
        first = Part(tmp_path, *listening("serve", tmp_path / "first"), variables=variables)
        first.start()
        try:
            line = refused(*listening(command, tmp_path / "second"), variables=variables)
            assert "executes runs of the same database" in line
            assert "set objects.folder to a folder that they share" in line
            shared = variables | {"WORKFLOW_API_OBJECTS_FOLDER": str(tmp_path / "objects")}
            with Part.started(tmp_path / "third", *listening(command, tmp_path / "3"), variables=shared):
                pass
        finally:
            first.kill()
        # A killed host does not count, although its lease has not expired.
        first.start()
        first.stop()
