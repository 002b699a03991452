"""Inputs of runs for people: swept where the policy redacts, and as given for those who may start runs."""

import threading
from typing import Final

from backend import json_text
from backend.audit import sql as audit
from backend.previews import sql
from backend.redaction.process.redactor import RedactionError, Redactor
from backend.reviews.inputs import given_inputs, swept_inputs
from backend.reviews.preparations import Preparations
from backend.reviews.stored_messages import StoredMessages
from backend.reviews.sweeping import ReviewSweep
from backend.runs.run_lookup import find_logged
from backend.services import Services
from backend.storage.database import Tx, run_of
from backend.storage.objects import ObjectStore
from workflow_api.v1 import previews_pb2

REVEALED: Final = "run.inputs_revealed"
"""Action of the audit trail."""

_NAME: Final = "reviews/inputs"
"""Object beside the reviews of approvals, whose names are ids."""


class InputPreviews:
    """Shows people what runs were started with."""

    def __init__(self, services: Services, objects: ObjectStore, redactor: Redactor, halt: threading.Event) -> None:
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
        run = self._services.database.snapshot(lambda tx: _found(tx, run_id))
        sweep = ReviewSweep(self._services.database, self._redactor, run, self._halt)
        if not sweep.redacts:
            return given_inputs(run)
        stored = self._stored.get(run_id, _NAME)
        if stored is not None:
            return stored
        try:
            made = self._preparations.result(run_id, lambda: self._make(run, sweep))
        except RedactionError as error:
            problem = f"They could not be swept for personal data, so nothing of them is shown: {error}."
            return previews_pb2.RunInputs(redacted=True, problem=problem)
        return previews_pb2.RunInputs(redacted=True, preparing=True) if made is None else made

    def revealed(self, run_id: str, actor: str) -> previews_pb2.RunInputs:
        """Returns the inputs of a run as they were given; audited where the run's policy redacts.

        Raises:
            ApiError: as `find_logged`.
        """
        services = self._services

        def work(tx: Tx) -> previews_pb2.RunInputs:
            run = _found(tx, run_id)
            if json_text.parse(run.pii_policy)["mode"] == "redact":
                audit.record(tx, at=services.clock(), actor=actor, action=REVEALED, target=run_id)
            return given_inputs(run)

        return services.database.write(work, lock_key=run_of(run_id))

    def close(self) -> None:
        """Ends what is being made; may be repeated."""
        self._preparations.close()

    def _make(self, run: sql.RunInputsRow, sweep: ReviewSweep) -> previews_pb2.RunInputs:
        inputs = swept_inputs(run, sweep)
        self._stored.put(run.run_id, _NAME, inputs)
        return inputs


def _found(tx: Tx, run_id: str) -> sql.RunInputsRow:
    find_logged(tx, run_id, None)
    return sql.inputs(tx, run_id)
