"""The stages of a run that a PII policy may sweep."""

from typing import Final, NamedTuple

from backend.redaction.counts import Counts

INPUTS: Final = "inputs"
STEPS: Final = "steps"
OUTPUTS: Final = "outputs"


class StageCounts(NamedTuple):
    """The counts of a sweep for one stage."""

    stage: str
    counts: Counts
