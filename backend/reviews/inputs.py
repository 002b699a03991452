"""Inputs of a run, swept where its PII policy redacts."""

from typing import Protocol

from backend.reviews.sweeping import ReviewSweep
from workflow_api.v1 import previews_pb2


class GivenInputs(Protocol):
    """Inputs of a run as its row has them."""

    @property
    def parameters(self) -> str | None:
        """Effective parameter values, JSON."""

    @property
    def input_text(self) -> str | None:
        """Text given at the start."""

    @property
    def inputs_manifest(self) -> str | None:
        """Objects copied in, JSON."""


def given_inputs(run: GivenInputs) -> previews_pb2.RunInputs:
    """Returns the inputs of a run as they were given."""
    return previews_pb2.RunInputs(
        parameters=run.parameters, input_text=run.input_text, inputs_manifest=run.inputs_manifest
    )


def swept_inputs(run: GivenInputs, sweep: ReviewSweep) -> previews_pb2.RunInputs:
    """Returns the inputs of a run, swept; blocks, and raises RedactionError."""
    inputs = previews_pb2.RunInputs(redacted=sweep.redacts)
    if run.parameters is not None:
        inputs.parameters = sweep.json(run.parameters)
    if run.input_text is not None:
        inputs.input_text = sweep.text(run.input_text)
    if run.inputs_manifest is not None:
        inputs.inputs_manifest = sweep.json(run.inputs_manifest)
    return inputs
