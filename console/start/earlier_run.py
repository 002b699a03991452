"""What the form that starts a run offers of an earlier run: its inputs, its version and its PII policy."""

import json
from collections.abc import Sequence
from typing import Final

from console.start.form import Declared, initial_texts
from workflow_api.v1.pii_policy_pb2 import PII_MODE_OFF
from workflow_api.v1.runs_pb2 import Run

_UPLOADED: Final = "upload://"
ERASED: Final = "The data of this run is erased, so there are no inputs to start it with again."


def parameter_texts(run: Run, declared: Sequence[Declared]) -> dict[str, str]:
    """Returns the texts of fields that stand for the run's parameters; uploaded files are the run's alone."""
    texts = initial_texts(declared, json.loads(run.parameters or "{}"))
    return {name: text for name, text in texts.items() if not text.startswith(_UPLOADED)}


def had_uploads(run: Run) -> bool:
    """Returns whether files were uploaded for the run."""
    return any(entry["uri"].startswith(_UPLOADED) for entry in json.loads(run.inputs_manifest or "[]"))


def other_texts(run: Run) -> dict[str, str]:
    """Returns the texts of the form's own fields; labels are lines `name=value`."""
    labels = "\n".join(f"{name}={value}" for name, value in sorted(run.summary.labels.items()))
    return {"input_text": run.input_text, "client_reference": run.summary.client_reference, "labels": labels}


def other_version(run: Run, shown: int, active: int) -> tuple[int, str] | None:
    """Returns the version that the form offers in place of the shown one, and which it is."""
    if shown != run.summary.version:
        return run.summary.version, "that of the run"
    return None if shown == active else (active, "the active one")


def has_policy(run: Run) -> bool:
    """Returns whether personal data was swept or counted in the run."""
    return run.HasField("pii_policy") and run.pii_policy.mode != PII_MODE_OFF
