"""Sweeps the content of a review by the run's PII policy, within the model calls that the run has left."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeVar

from backend.common import json_text
from backend.common.json_text import JsonMapping
from backend.resources.redaction.confined_redactor import ConfinedRedactor, RedactionError
from backend.services.runs import redaction_manifest, redaction_manifest_sql
from backend.services.runs.redaction_manifest_sql import OUTPUTS, STEPS, StageCounts
from backend.storage.database import Database, run_of
from redaction.counts import Counts
from redaction.formats.outcome import FileOutcome
from redaction.formats.preview import FilePreview
from workflow_api.v1 import previews_pb2

MOST_ROWS: Final = 50

T = TypeVar("T")


class SweptRun(Protocol):
    """Fields of a run that a sweep reads."""

    @property
    def run_id(self) -> str:
        """The run's id."""

    @property
    def key_id(self) -> str:
        """The key that started the run; empty if no key did."""

    @property
    def pii_policy(self) -> str:
        """The run's PII policy, JSON."""

    @property
    def pii_redaction(self) -> str | None:
        """The run's redaction manifest, JSON."""


class ReviewSweep:
    """Sweep of one run's review; blocks, and raises RedactionError.

    A policy of mode `redact` applies here whatever stages it names. With any other mode nothing is swept.
    """

    def __init__(self, database: Database, redactor: ConfinedRedactor, run: SweptRun, halt: threading.Event) -> None:
        policy: JsonMapping = json_text.parse(run.pii_policy)
        self.redacts: bool = policy["mode"] == "redact"
        self.values_are_swept: bool = STEPS in policy["stages"]
        self._database = database
        self._redactor = redactor
        self._run_id = run.run_id
        self._owner = run.key_id
        self._halt = halt
        calls_made = 0 if run.pii_redaction is None else redaction_manifest.model_calls(run.pii_redaction)
        self._policy = {
            **policy,
            "model": policy["model"] if self.redacts else None,
            "max_model_calls": max(0, policy["max_model_calls"] - calls_made),
        }

    def json(self, text: str) -> str:
        """Returns JSON text, swept."""
        if not self.redacts:
            return text
        swept = self._sweep_and_count(lambda: self._redactor.text(self._policy, text, self._halt, owner=self._owner))
        return str(swept.text)

    def text(self, text: str) -> str:
        """Returns text, swept."""
        if not self.redacts:
            return text
        (swept,) = self._sweep_and_count(
            lambda: self._redactor.values(self._policy, [text], self._halt, owner=self._owner)
        )
        return str(swept)

    def names(self, names: Sequence[str]) -> list[str]:
        """Returns names of files, swept."""
        if not self.redacts or not names:
            return list(names)
        return self._sweep_and_count(lambda: self._redactor.names(self._policy, names, self._halt, owner=self._owner))

    def file(self, source: Path, target: Path, name: str) -> FileOutcome:
        """Writes the swept copy of a file to `target`, unless the outcome says that it is withheld."""
        return self._sweep_and_count(
            lambda: self._redactor.file(self._policy, source, target, name, self._halt, owner=self._owner)
        )

    def preview(self, source: Path, name: str, *, head: bool = False) -> FilePreview | str:
        """Returns the beginning of a file that is swept, or the reason why there is none.

        With `head` the source holds only the first bytes of the file, cut anywhere.
        """
        policy = {**self._policy, "mode": "off", "model": None}
        rows, first, owner = MOST_ROWS, None if head else 0, self._owner
        found, _ = self._redactor.preview(
            policy, source, name, self._halt, owner=owner, rows=rows, head=head, first=first
        )
        return found

    def _sweep_and_count(self, sweep: Callable[[], tuple[T, Counts]]) -> T:
        try:
            swept, counts = sweep()
        except RedactionError as error:
            self._record(Counts(model_calls=error.model_calls))
            raise
        # Only model calls are counted, because the run's own sweeps count the values.
        self._record(Counts(model_calls=counts.model_calls, model_skipped=counts.model_skipped))
        return swept

    def _record(self, counts: Counts) -> None:
        if counts == Counts():
            return
        self._policy["max_model_calls"] = max(0, self._policy["max_model_calls"] - counts.model_calls)

        found = StageCounts(OUTPUTS, counts)
        self._database.write(
            lambda tx: redaction_manifest_sql.add_counts(tx, self._run_id, found), lock_key=run_of(self._run_id)
        )


class RunInputColumns(Protocol):
    """Columns of a run with its inputs."""

    @property
    def parameters(self) -> str | None:
        """Effective parameter values, JSON."""

    @property
    def input_text(self) -> str | None:
        """Text given at the start."""

    @property
    def inputs_manifest(self) -> str | None:
        """Objects copied in, JSON."""


def unswept_inputs(run: RunInputColumns) -> previews_pb2.RunInputs:
    """Returns the inputs of a run without a sweep."""
    return previews_pb2.RunInputs(
        parameters=run.parameters, input_text=run.input_text, inputs_manifest=run.inputs_manifest
    )


def swept_inputs(run: RunInputColumns, sweep: ReviewSweep) -> previews_pb2.RunInputs:
    """Returns the inputs of a run, swept; blocks, and raises RedactionError."""
    inputs = previews_pb2.RunInputs(redacted=sweep.redacts)
    if run.parameters is not None:
        inputs.parameters = sweep.json(run.parameters)
    if run.input_text is not None:
        inputs.input_text = sweep.text(run.input_text)
    if run.inputs_manifest is not None:
        inputs.inputs_manifest = sweep.json(run.inputs_manifest)
    return inputs
