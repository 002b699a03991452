"""Outcomes of one attempt of a step: its completion, its failure, or calls of tools that wait for a person."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from backend.services.model_usage.sql import AttemptUsage
from backend.services.outputs.sql import StepFile
from backend.services.runs.redaction_manifest_sql import StageCounts
from redaction.counts import Counts


@dataclass(frozen=True, slots=True)
class StepCompletion:
    """A completed attempt: return value as JSON text, stored files, counts of sweeps by stage, and warnings.

    `swept` are the total counts of value and files, None unless the policy covers `steps`. `skipped` counts by kind the
    omitted entries of an item's folder; the fan-out adds them to one warning. `usage` is the attempt's use of a model,
    None without an answered call.
    """

    value: str
    files: list[StepFile]
    redacted: list[StageCounts]
    warnings: list[str] = field(default_factory=list)
    swept: Counts | None = None
    skipped: Mapping[str, int] = field(default_factory=dict)
    usage: AttemptUsage | None = None


@dataclass(frozen=True, slots=True)
class StepFailure:
    """A failed attempt; `type` and `message` are swept for the caller, other fields are as in `StepFailed`.

    `unswept_type` only decides on retries, and is never shown. `usage` is as in `StepCompletion`.
    """

    type: str
    message: str
    final: bool = False
    retry_after: float | None = None
    unswept_type: str = ""
    redacted: list[StageCounts] = field(default_factory=list)
    usage: AttemptUsage | None = None


class AskedApproval(NamedTuple):
    """An approval of a call of a tool; `tool_call` is JSON text that people may read."""

    approval_id: str
    title: str
    tool_call: str


@dataclass(frozen=True, slots=True)
class StepPause:
    """An attempt that ended with calls of tools for a person; `conversation` is JSON text for the next attempt.

    `files` are all that the step has stored so far, recorded once it completes; other fields are as in
    `StepCompletion`.
    """

    calls: Sequence[AskedApproval]
    conversation: str
    files: Sequence[StepFile]
    redacted: list[StageCounts]
    usage: AttemptUsage | None = None
