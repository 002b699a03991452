import pytest

from tests.unit.contract.channels import Run, in_process, remote


@pytest.fixture(name="run", params=[in_process, remote], ids=["in-process", "remote"])
def _run(request: pytest.FixtureRequest) -> Run:
    run: Run = request.param
    return run
