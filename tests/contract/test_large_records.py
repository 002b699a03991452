"""Large records arrive complete, in one process and between separate processes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.test_command_line_serve import served
from tests.support.admin import Admin
from tests.support.client import Caller, call
from tests.support.part import address_of
from tests.support.poll import until
from tests.support.service import Service

pytestmark = pytest.mark.long

# A start of so many bytes of parameters is just within the 1 MiB of a body.
BYTES = 1_048_000


@pytest.fixture(scope="module", params=["in one process", "apart"])
def large(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Admin, Caller]]:
    """An administrator and a caller of a service of either kind."""
    if request.param == "in one process":
        service: Service = request.getfixturevalue("service")
        yield service.admin, service.new_caller()
        return
    folder: Path = tmp_path_factory.mktemp("apart")
    with (
        served("backend", "--data", str(folder), "--grpc", "127.0.0.1:0", "--json") as (_, line),
        served("edge", "--http", "127.0.0.1:0", "--grpc", json.loads(line)["grpc"]) as (_, base_address),
    ):
        admin = Admin(json.loads(line)["grpc"])
        made = admin.create_key()
        caller = Caller(address_of(base_address), made.key_id, made.key, made.external_id)
        until(lambda: caller.get("/me").status == 200, "the edge to know the key")
        yield admin, caller
        admin.close()


def test_a_run_started_with_a_mebibyte_is_shown_in_full(large: tuple[Admin, Caller]) -> None:
    admin, caller = large
    flows = admin.apply_test_workflows()
    parameters = {"word": "abc", "extra": "x" * BYTES}
    answer = caller.start(flows["Typed"], parameters=parameters, input_text="é")
    assert answer.status == 201, answer
    run = caller.wait(answer.json()["run_id"])
    assert (run["status"], run["input_text"], run["parameters"]["extra"]) == ("completed", "é", "x" * BYTES)
    # The step gives its parameters back: more than is inline, so it is fetched.
    assert run["result"] is None
    fetched = call(caller.address, "GET", run["result_json"]["download"]["path"], caller.credentials)
    assert fetched.json()["parameters"]["extra"] == "x" * BYTES


def test_a_page_of_100_runs_with_the_largest_labels_is_whole(large: tuple[Admin, Caller]) -> None:
    admin, caller = large
    flows = admin.apply_test_workflows()
    labels = {f"{n}" * 64: "v" * 256 for n in range(10)}
    started = [caller.started(flows["Silence"], client_reference="r" * 256, labels=labels) for _ in range(100)]
    page = caller.get("/runs", limit=100, client_reference="r" * 256)
    assert [item["run_id"] for item in page.json()["items"]] == started[::-1]
    assert all(item["labels"] == labels for item in page.json()["items"])
