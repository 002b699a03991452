"""Which part `workflow-api doctor` examines, and where it looks for it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.config.addresses import Address
from deploy.config.settings import Settings
from deploy.doctor.examination import ExaminedPart, Finding, ServingPart, ok
from deploy.doctor.service import check_edge, check_service
from tests.unit.deploy.fake_backend import command

HERE = "127.0.0.1:9191"


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch) -> list[ExaminedPart]:
    """Collects what is examined."""
    given: list[ExaminedPart] = []

    def examine(one: ExaminedPart) -> Iterator[Finding]:
        given.append(one)
        yield ok("all", "It is in order.")

    monkeypatch.setattr("deploy.cli.doctor.examine", examine)
    monkeypatch.delenv("WORKFLOW_API_GRPC", raising=False)
    return given


def value(settings: Settings, name: str) -> Any:
    part, _, field = name.partition(".")
    return getattr(getattr(settings, part), field) if field else getattr(settings, part)


@pytest.mark.parametrize(
    ("part", "option", "setting"),
    [
        (part, option, setting)
        for part, options in {
            "serve": {"--http": "edge.http", "--grpc": "backend.grpc", "--console": "console.listen"},
            "backend": {"--grpc": "backend.grpc"},
            "edge": {"--http": "edge.http", "--grpc": "edge.backend"},
            "console": {"--http": "console.listen", "--grpc": "console.backend"},
        }.items()
        for option, setting in options.items()
    ],
)
def test_a_part_is_looked_for_where_its_own_options_say(
    part: str, option: str, setting: str, examined: list[ExaminedPart]
) -> None:
    assert command("doctor", part, option, HERE).code == 0
    assert str(value(examined[0].settings, setting)) == HERE


def test_the_data_folder_is_that_of_the_option(examined: list[ExaminedPart], tmp_path: Path) -> None:
    assert command("doctor", "worker", "--data", str(tmp_path)).code == 0
    assert examined[0].data == tmp_path


@pytest.mark.parametrize(
    ("part", "option"), [("worker", "--http"), ("worker", "--grpc"), ("backend", "--console"), ("edge", "--data")]
)
def test_an_option_that_the_part_lacks_is_misuse(part: str, option: str, examined: list[ExaminedPart]) -> None:
    refused = command("doctor", part, option, HERE)
    assert (refused.code, "has no such option" in refused.err, examined) == (2, True, [])


@pytest.mark.parametrize("part", ["serve", "backend", "worker"])
def test_an_administrator_reaches_the_backend_where_the_variable_says(
    part: str, examined: list[ExaminedPart], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKFLOW_API_GRPC", HERE)
    assert command("doctor", part).code == 0
    assert examined[0].named_backend == Address("127.0.0.1", 9191)
    (check,) = check_service(examined[0])
    assert f"The backend at {HERE} does not answer" in check.message


def test_an_edge_finds_its_backend_by_the_variable_as_when_it_serves(
    examined: list[ExaminedPart], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKFLOW_API_GRPC", HERE)
    assert command("doctor", "edge").code == 0
    assert str(examined[0].settings.edge.backend) == HERE
    monkeypatch.setenv("WORKFLOW_API_GRPC", "nowhere")
    assert command("doctor", "edge").code == 2


def test_an_option_wins_over_the_variable(examined: list[ExaminedPart], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKFLOW_API_GRPC", "127.0.0.1:1")
    assert command("doctor", "serve", "--grpc", HERE).code == 0
    assert (str(examined[0].settings.backend.grpc), examined[0].named_backend) == (HERE, None)


def test_where_nothing_answers_it_is_said_how_to_name_another_address(tmp_path: Path) -> None:
    settings = Settings()
    nowhere = Address("127.0.0.1", 1)
    examined = ExaminedPart(ServingPart.SERVE, _with_edge(settings, nowhere), tmp_path, {}, named_backend=nowhere)
    (edge,), (service,) = check_edge(examined), check_service(examined)
    assert "--http" in edge.message
    assert "--grpc or WORKFLOW_API_GRPC" in service.message
    (worker,) = check_service(ExaminedPart(ServingPart.WORKER, settings, tmp_path, {}))
    assert "WORKFLOW_API_GRPC" in worker.message


def _with_edge(settings: Settings, where: Address) -> Settings:
    return replace(settings, edge=replace(settings.edge, http=where))
