"""Inputs of a run as people see them: swept where its PII policy redacts, as given for those who may start runs."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from console.visit import Services
from workflow_api.v1.pii_policy_pb2 import PII_MODE_REDACT
from workflow_api.v1.previews_pb2 import GetRunInputsRequest, RevealRunInputsRequest, RunInputs
from workflow_api.v1.runs_pb2 import GetRunRequest, Run

_POLL_SECONDS: Final = 1.0


async def read_run(services: Services, run_id: str) -> tuple[Run, RunInputs]:
    """Returns a run with its inputs swept where its policy redacts, and the state of that sweep; raises Refusal."""
    run: Run = await services.call("RunsService/GetRun", GetRunRequest(run_id=run_id))
    if not _withheld(run):
        return run, RunInputs()
    inputs: RunInputs = await services.call("PreviewsService/GetRunInputs", GetRunInputsRequest(run_id=run_id))
    return _filled(run, inputs), inputs


async def reveal_run(services: Services, run_id: str) -> Run:
    """Returns a run with its inputs as given, which is audited where its policy redacts; raises Refusal."""
    run: Run = await services.call("RunsService/GetRun", GetRunRequest(run_id=run_id))
    # A backend of an older release leaves them in.
    if not _withheld(run) or run.HasField("parameters"):
        return run
    inputs = await services.call("PreviewsService/RevealRunInputs", RevealRunInputsRequest(run_id=run_id))
    return _filled(run, inputs)


async def until_swept(services: Services, run_id: str) -> AsyncIterator[tuple[str, str]]:
    """Yields one update of the page of a run, once its inputs are swept; raises Refusal."""
    while True:
        _, inputs = await read_run(services, run_id)
        if not inputs.preparing:
            yield "refresh", "inputs"
            return
        await asyncio.sleep(_POLL_SECONDS)


def _withheld(run: Run) -> bool:
    """Returns whether `GetRun` leaves out the inputs for people."""
    return run.pii_policy.mode == PII_MODE_REDACT and not run.HasField("data_purged_at")


def _filled(run: Run, inputs: RunInputs) -> Run:
    filled = Run()
    filled.CopyFrom(run)
    for name in ("parameters", "input_text", "inputs_manifest"):
        filled.ClearField(name)
        if inputs.HasField(name):
            setattr(filled, name, getattr(inputs, name))
    return filled
