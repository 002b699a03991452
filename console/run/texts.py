"""Long texts of a run: its page shows the beginning of each, and sends the whole."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import orjson

from console.rendering import formatting
from console.rendering.excerpts import beginning
from console.run import counts
from contract.json_codec.response import object_of
from workflow_api.v1.pii_policy_pb2 import PiiPolicy
from workflow_api.v1.runs_pb2 import Run

_POLICY_OBJECT: Final = object_of(PiiPolicy.DESCRIPTOR, raw=orjson.Fragment, links=orjson.Fragment)


class RunText(NamedTuple):
    """A text, its name in addresses, its heading, and how many characters the page of the run shows of it."""

    name: str
    heading: str
    text: str
    chars: int = counts.TEXT


class Excerpt(NamedTuple):
    """The beginning of a text, and whether the rest is cut."""

    name: str
    heading: str
    text: str
    cut: bool


def inputs_of(run: Run) -> list[RunText]:
    """Returns what a run was given."""
    return [
        RunText("text", "Text", run.input_text),
        RunText("parameters", "Parameters", formatting.json_lines(run.parameters)),
        RunText("copied-inputs", "Copied inputs", formatting.json_lines(run.inputs_manifest)),
    ]


def texts_of(run: Run) -> list[RunText]:
    """Returns all texts of a run: what it was given, what applies to it, what it made, and what it says of itself."""
    policy = policy_text(run.pii_policy) if run.HasField("pii_policy") else ""
    return [
        *inputs_of(run),
        RunText("policy", "PII policy", formatting.json_lines(policy)),
        RunText("redaction", "Redaction manifest", formatting.json_lines(run.pii_redaction)),
        RunText("summary", "Summary", run.summary_markdown),
        RunText("result", "Result", formatting.json_lines(run.result)),
        RunText("error", "Error", run.error.message, counts.MESSAGE),
        RunText("result-error", "Error of the result", run.result_error.message, counts.MESSAGE),
        RunText("warnings", "Warnings", "\n".join(run.summary.warnings)),
    ]


def excerpts(texts: list[RunText], chars: int = 0) -> Mapping[str, Excerpt]:
    """Returns the beginnings of texts that are not empty, by name; `chars` takes the place of their own bounds."""
    return {
        each.name: Excerpt(each.name, each.heading, *beginning(each.text, chars or each.chars))
        for each in texts
        if each.text
    }


def policy_text(policy: PiiPolicy) -> str:
    """Returns a PII policy as the JSON that callers write."""
    return orjson.dumps(_POLICY_OBJECT(policy)).decode()
