"""Previews of the inputs of a run and of the values that its steps returned, swept where its PII policy redacts."""

import threading
from typing import Final, NamedTuple

from backend.common import json_text
from backend.resources.redaction.confined_redactor import ConfinedRedactor, RedactionError
from backend.services.audit import sql as audit
from backend.services.dependencies import Services
from backend.services.previews import sql
from backend.services.reviews.preparations import Preparations, StoredMessages
from backend.services.reviews.sweeping import ReviewSweep, swept_inputs, unswept_inputs
from backend.services.runs.reads import find_logged
from backend.storage.database import Tx, run_of
from backend.storage.objects import ObjectStore
from backend.storage.tables.files import OutputRow
from redaction.formats.preview import MOST_CHARS
from workflow_api.v1 import previews_pb2
from workflow_api.v1.reviews_pb2 import ReviewText

REVEALED: Final = "run.inputs_revealed"
"""Action in the audit trail for inputs shown unswept."""

_NAME: Final = "reviews/inputs"
"""Name of the object with swept inputs, next to reviews of approvals, which are named by ids."""


class InputPreviews:
    """Shows people the inputs of runs."""

    def __init__(
        self, services: Services, objects: ObjectStore, redactor: ConfinedRedactor, halt: threading.Event
    ) -> None:
        self._services = services
        self._redactor = redactor
        self._halt = halt
        self._preparations = Preparations[previews_pb2.RunInputs]("inputs")
        self._stored = StoredMessages(services, objects, previews_pb2.RunInputs.FromString)

    def swept(self, run_id: str) -> previews_pb2.RunInputs:
        """Returns the inputs of a run, swept once and kept until the run's data is erased.

        Raises:
            ApiError: as `find_logged`.
        """
        run = self._services.database.snapshot(lambda tx: _require_inputs(tx, run_id))
        sweep = ReviewSweep(self._services.database, self._redactor, run, self._halt)
        if not sweep.redacts:
            return unswept_inputs(run)
        stored = self._stored.get(run_id, _NAME)
        if stored is not None:
            return stored
        try:
            made = self._preparations.result(run_id, lambda: self._make(run, sweep))
        except RedactionError as error:
            problem = f"They could not be swept for personal data, so nothing of them is shown: {error}."
            return previews_pb2.RunInputs(redacted=True, problem=problem)
        return previews_pb2.RunInputs(redacted=True, preparing=True) if made is None else made

    def reveal(self, run_id: str, actor: str) -> previews_pb2.RunInputs:
        """Returns the inputs of a run unswept; audited if the run's policy redacts.

        Raises:
            ApiError: as `find_logged`.
        """
        services = self._services

        def work(tx: Tx) -> previews_pb2.RunInputs:
            run = _require_inputs(tx, run_id)
            if json_text.parse(run.pii_policy)["mode"] == "redact":
                audit.record(tx, at=services.clock(), actor=actor, action=REVEALED, target=run_id)
            return unswept_inputs(run)

        return services.database.write(work, lock_key=run_of(run_id))

    def close(self) -> None:
        """Ends the previews under way. Idempotent."""
        self._preparations.close()

    def _make(self, run: sql.RunInputsRow, sweep: ReviewSweep) -> previews_pb2.RunInputs:
        inputs = swept_inputs(run, sweep)
        self._stored.put(run.run_id, _NAME, inputs)
        return inputs


def _require_inputs(tx: Tx, run_id: str) -> sql.RunInputsRow:
    find_logged(tx, run_id, None)
    return sql.inputs(tx, run_id)


MOST_FILES: Final = 50


class ShownStep(NamedTuple):
    """A step with its run and its first files."""

    run: sql.PreviewedRunRow
    step: sql.PreviewedStepRow
    files: list[OutputRow]
    files_total: int
    released: bool

    @property
    def cache_key(self) -> str:
        """Key of the step's preview, different for each state of the step."""
        return f"{self.run.run_id}/{self.step.step}/{self.step.attempt}/{self.step.status}/{self.released}"


def needs_sweep(shown: ShownStep, sweep: ReviewSweep) -> bool:
    """Returns whether the step's value or files must be swept before they are shown."""
    value = shown.step.value is not None and not sweep.values_are_swept
    return sweep.redacts and (value or (bool(shown.files) and not shown.released))


def step_preview(shown: ShownStep, sweep: ReviewSweep) -> previews_pb2.StepPreview:
    """Returns the preview of a step; blocks while content is swept, and raises RedactionError."""
    value = shown.step.value
    if value is not None and not sweep.values_are_swept:
        value = sweep.json(value)
    names = [file.path for file in shown.files]
    if not shown.released:
        names = sweep.names(names)
    return previews_pb2.StepPreview(
        value=None if value is None else ReviewText(text=value[:MOST_CHARS], cut=len(value) > MOST_CHARS),
        files=[
            previews_pb2.StepFile(
                output_id=file.output_id, path=name, media_type=file.media_type, size_bytes=file.size_bytes
            )
            for file, name in zip(shown.files, names, strict=True)
        ],
        files_total=shown.files_total,
        redacted=sweep.redacts,
    )
