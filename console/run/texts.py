"""Texts of a run, such as inputs (redacted by its PII policy) and results, and their excerpts on its page."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Final, NamedTuple

import orjson

from console.rendering import formatting
from console.rendering.text import beginning
from console.run import bounds
from console.visit import UserServices
from contract.json_codec.response import object_of
from workflow_api.v1.pii_policy_pb2 import PII_MODE_REDACT, PiiPolicy
from workflow_api.v1.previews_pb2 import GetRunInputsRequest, RevealRunInputsRequest, RunInputs
from workflow_api.v1.runs_pb2 import GetRunRequest, Run

_POLICY_OBJECT: Final = object_of(PiiPolicy.DESCRIPTOR, raw=orjson.Fragment, links=orjson.Fragment)

_POLL_SECONDS: Final = 1.0


class RunText(NamedTuple):
    """A text of a run: its name in addresses, heading, content, and the most characters on the run's page."""

    name: str
    heading: str
    text: str
    chars: int = bounds.TEXT


class Excerpt(NamedTuple):
    """The beginning of a run's text, and whether the rest is cut."""

    name: str
    heading: str
    text: str
    cut: bool


def inputs_of(run: Run) -> list[RunText]:
    """Returns the inputs of a run."""
    return [
        RunText("text", "Text", run.input_text),
        RunText("parameters", "Parameters", formatting.json_lines(run.parameters)),
        RunText("copied-inputs", "Copied inputs", formatting.json_lines(run.inputs_manifest)),
    ]


def texts_of(run: Run) -> list[RunText]:
    """Returns all texts of a run: inputs, policy, redaction manifest, summary, result, errors and warnings."""
    policy = policy_text(run.pii_policy) if run.HasField("pii_policy") else ""
    return [
        *inputs_of(run),
        RunText("policy", "PII policy", formatting.json_lines(policy)),
        RunText("redaction", "Redaction manifest", formatting.json_lines(run.pii_redaction)),
        RunText("summary", "Summary", run.summary_markdown),
        RunText("result", "Result", formatting.json_lines(run.result)),
        RunText("error", "Error", run.error.message, bounds.MESSAGE),
        RunText("result-error", "Error of the result", run.result_error.message, bounds.MESSAGE),
        RunText("warnings", "Warnings", "\n".join(run.summary.warnings)),
    ]


def excerpts(texts: list[RunText], chars: int = 0) -> Mapping[str, Excerpt]:
    """Returns excerpts of the texts that are not empty, by name; `chars` replaces their own bounds."""
    return {
        each.name: Excerpt(each.name, each.heading, *beginning(each.text, chars or each.chars))
        for each in texts
        if each.text
    }


def policy_text(policy: PiiPolicy) -> str:
    """Returns a PII policy as the JSON that callers write."""
    return orjson.dumps(_POLICY_OBJECT(policy)).decode()


async def read_run(services: UserServices, run_id: str) -> tuple[Run, RunInputs]:
    """Returns a run with its inputs, redacted by its policy, and the state of the redaction; raises Refusal."""
    run: Run = await services.call("RunsService/GetRun", GetRunRequest(run_id=run_id))
    if not _withheld(run):
        return run, RunInputs()
    inputs: RunInputs = await services.call("PreviewsService/GetRunInputs", GetRunInputsRequest(run_id=run_id))
    return _filled(run, inputs), inputs


async def reveal_run(services: UserServices, run_id: str) -> Run:
    """Returns a run with its inputs as given; audited where its policy redacts; raises Refusal."""
    run: Run = await services.call("RunsService/GetRun", GetRunRequest(run_id=run_id))
    # A backend of an older release does not withhold inputs.
    if not _withheld(run) or run.HasField("parameters"):
        return run
    inputs = await services.call("PreviewsService/RevealRunInputs", RevealRunInputsRequest(run_id=run_id))
    return _filled(run, inputs)


async def until_swept(services: UserServices, run_id: str) -> AsyncIterator[tuple[str, str]]:
    """Yields one update of a run's page once its inputs are redacted; raises Refusal."""
    while True:
        _, inputs = await read_run(services, run_id)
        if not inputs.preparing:
            yield "refresh", "inputs"
            return
        await asyncio.sleep(_POLL_SECONDS)


def _withheld(run: Run) -> bool:
    """Returns whether `GetRun` withholds the run's inputs from people."""
    return run.pii_policy.mode == PII_MODE_REDACT and not run.HasField("data_purged_at")


def _filled(run: Run, inputs: RunInputs) -> Run:
    filled = Run()
    filled.CopyFrom(run)
    for name in ("parameters", "input_text", "inputs_manifest"):
        filled.ClearField(name)
        if inputs.HasField(name):
            setattr(filled, name, getattr(inputs, name))
    return filled
