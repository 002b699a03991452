"""Sweeps a run's inputs for personal data."""

import threading
from pathlib import Path
from typing import Any

from backend.redaction.counts import Counts
from backend.runtime.execution.claim import ClaimedSegment
from backend.runtime.redaction.run_redaction import RunRedaction


def sweep_inputs(
    redaction: RunRedaction, claimed: ClaimedSegment, folder: Path | None, halt: threading.Event
) -> tuple[dict[str, Any], str | None, Counts]:
    """Returns the parameters and the input text as steps may see them, and the counts; sweeps copied files in place.

    The URI of an `s3_prefix` input is not swept. Every segment sweeps parameters and text again, for the run keeps what
    its caller gave; files are swept only by a segment that copied them in, into `folder`.

    Raises:
        RedactionError: the sweep failed, and steps may see none of it.
        OSError: the disk is full.
    """
    places = {declared.parameter for declared in claimed.terms.inputs}
    values = {name: value for name, value in claimed.parameters.items() if name not in places}
    (swept, text), found = redaction.value([values, claimed.input_text], halt)
    if folder is not None:
        for parameter in sorted(folder.iterdir()):
            found.add(redaction.folder(parameter, halt))
    return {**claimed.parameters, **swept}, text, found
