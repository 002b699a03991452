"""What the steps of a run are given, as it was swept."""

import threading
from pathlib import Path
from typing import Any

from backend.redaction import Counts
from backend.runtime.execution.claim import ClaimedSegment
from backend.runtime.execution.run_redaction import RunRedaction


def sweep_inputs(
    redaction: RunRedaction, claimed: ClaimedSegment, folder: Path | None, halt: threading.Event
) -> tuple[dict[str, Any], str | None, Counts]:
    """The parameters and the input text as steps may see them, and what was found; sweeps the copied files too.

    The place of an `s3_prefix` input is no personal data. Every segment sweeps the two anew, for the run keeps what
    its caller gave; the files are swept once, where they were copied in.

    Raises:
        RedactionError: nothing may be shown to a step.
        OSError: the disk is full.
    """
    places = {declared.parameter for declared in claimed.terms.inputs}
    values = {name: value for name, value in claimed.parameters.items() if name not in places}
    (swept, text), found = redaction.value([values, claimed.input_text], halt)
    if folder is not None and claimed.first:
        for parameter in sorted(folder.iterdir()):
            found.add(redaction.folder(parameter, halt))
    return {**claimed.parameters, **swept}, text, found
