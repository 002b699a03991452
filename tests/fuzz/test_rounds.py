"""A few fixed rounds of `life` and `linked_calls`; `make fuzz` runs for longer, with new seeds each time."""

from collections.abc import Iterator

import pytest

from tests.fuzz.rounds import follow_links, live
from tests.support.service import Service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("fuzz"))
    service.start()
    try:
        yield service
    finally:
        service.stop()


def test_keys_and_runs_behave_as_the_model(service: Service) -> None:
    live(service, seed=None, examples=12, steps=40)


def test_answers_behind_the_links_of_the_description_are_as_described(service: Service) -> None:
    assert len(follow_links(service, seed=0, walks=8, steps=60)) > 20
