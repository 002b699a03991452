"""Inputs of a run as people see them: swept where its policy redacts, as given on request, which is audited."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.audit import sql as audit_sql
from backend.models.catalog import Models
from backend.previews.service import Previews
from backend.previews.servicer import PreviewsServicer
from backend.redaction.process.redactor import Redactor
from backend.runs.erase import erase_run
from backend.secrets import Secrets
from backend.storage.object_keys import run_prefix
from contract.metadata import ACTOR, PERSON
from tests.services.calls import Caller, RefusedError
from tests.services.runtime.conftest import RuntimeWorld, agent_step
from tests.support.poll import until
from workflow_api.v1 import previews_pb2, runs_pb2

MAIL = "jane.roe@example.com"
SWEPT = "[EMAIL_ADDRESS]"
STAGES = [["inputs"], ["steps"], ["outputs"]]


class Desk:
    """A person's view of what runs were given."""

    def __init__(self, world: RuntimeWorld, folder: Path) -> None:
        self.redactor = Redactor(Models(Secrets(), {}), scratch=folder / "scratch")
        self.previews = Previews(world.services, world.objects, self.redactor, folder / "previews")
        service = previews_pb2.DESCRIPTOR.services_by_name["PreviewsService"]
        self.call = Caller(PreviewsServicer(self.previews), service)

    def swept(self, run_id: str) -> previews_pb2.RunInputs:
        found: list[previews_pb2.RunInputs] = []

        def prepared() -> bool:
            found[:] = [self.call("GetRunInputs", previews_pb2.GetRunInputsRequest(run_id=run_id))]
            return not found[0].preparing

        until(prepared, "the inputs")
        return found[0]

    def revealed(self, run_id: str) -> previews_pb2.RunInputs:
        request = previews_pb2.RevealRunInputsRequest(run_id=run_id)
        found: previews_pb2.RunInputs = self.call("RevealRunInputs", request)
        return found

    def close(self) -> None:
        self.previews.close()
        self.redactor.close()


@pytest.fixture
def desk(world: RuntimeWorld, tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(world, tmp_path / "desk")
    yield desk
    desk.close()
