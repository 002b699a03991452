"""Changes of many runs at once: which runs each concerns, why it leaves others out, and the requests it consists of."""

from collections.abc import Sequence
from hashlib import sha256
from shlex import quote
from typing import Final, NamedTuple

from google.protobuf.message import Message

from console.rendering import formatting
from contract.times import to_timestamp
from workflow_api.v1.runs_pb2 import (
    RUN_STATUS_CANCELLED,
    RUN_STATUS_COMPLETED,
    RUN_STATUS_FAILED,
    RUN_STATUS_QUEUED,
    RUN_STATUS_RUNNING,
    RUN_STATUS_WAITING_FOR_APPROVAL,
    CancelRunRequest,
    CancelRunResponse,
    EraseRunDataRequest,
    EraseRunDataResponse,
    ResumeRunRequest,
    ResumeRunResponse,
    Run,
    RunStatus,
)

MOST_RUNS: Final = 100
"""Most runs that one form changes: the runs of a page, and ticked runs that stay on the page."""

MAX_TEXT_CHARS: Final = 500
"""Characters of a reason of a refusal."""

_KEY_CHARS: Final = 32
_ID_CHARS: Final = 128

Answer = CancelRunResponse | ResumeRunResponse | EraseRunDataResponse


class RunChange(NamedTuple):
    """A change of runs, as `workflow-api runs <verb>` makes it.

    Attributes:
        verb: Word for the change in addresses and on buttons.
        done: Word for changed runs, as in "3 cancelled or ending".
        rpc: The RPC that changes one run; whoever may call it may change many runs.
        statuses: Statuses of the runs that the change concerns.
        nothing_to_do: Codes of refusals of runs that need the change no more.
        effect: Effect of the change, for the page that asks for confirmation.
        question: Question of the button; empty where the change can be undone.
        takes_reason: Whether a reason is recorded.
    """

    verb: str
    done: str
    rpc: str
    statuses: frozenset[RunStatus.ValueType]
    nothing_to_do: frozenset[str]
    effect: str
    question: str
    takes_reason: bool = True

    @property
    def path(self) -> str:
        """The address of the page that asks for confirmation."""
        return f"/runs/{self.verb}"

    def left_out(self, run: Run) -> str:
        """Returns why the change leaves a run out; empty where it concerns the run."""
        if self is not CANCELLING and run.HasField("data_purged_at"):
            return "Its data is erased already."
        if run.summary.status in self.statuses:
            if self is RESUMING and run.HasField("resumed_by"):
                return f"{run.resumed_by} has taken over from it already."
            return ""
        if self is CANCELLING:
            return "It has ended already."
        return "It has completed." if run.summary.status == RUN_STATUS_COMPLETED else "It has not ended."

    def request(self, run_id: str, reason: str, once: str) -> Message:
        """Returns the request that changes one run; `once` names the form, which resumes each run at most once."""
        if self is RESUMING:
            key = sha256(f"{once} {run_id}".encode()).hexdigest()[:_KEY_CHARS]
            return ResumeRunRequest(run_id=run_id, idempotency_key=f"console-{key}")
        of = CancelRunRequest if self is CANCELLING else EraseRunDataRequest
        return of(run_id=run_id, reason=reason or None)

    def outcome(self, run_id: str, answer: Answer) -> "RunOutcome":
        """Returns the outcome of a call that was not refused."""
        if isinstance(answer, ResumeRunResponse):
            return RunOutcome(run_id, DONE, "resumed", answer.run.summary.run_id)
        if isinstance(answer, CancelRunResponse):
            ended = formatting.RUN_STATUSES.get(answer.status) in formatting.ENDED
            return RunOutcome(run_id, DONE, "cancelled" if ended else "ending")
        return RunOutcome(run_id, DONE, "erased")

    def command(self, workflow_id: str, status: Sequence[RunStatus.ValueType], after: int, before: int) -> str:
        """Returns the shell command that lists the runs that filters choose, to be changed without `--dry-run`.

        The values of the filters are quoted. The command is empty where the change concerns none of the runs.
        `after` and `before` bound the time of creation in milliseconds since the epoch, both exclusive; 0 for none.
        """
        chosen = [each for each in status if each in self.statuses]
        if status and not chosen:
            return ""
        if not (chosen or workflow_id or after or before):
            # Without any option the command would change nothing.
            chosen = sorted(self.statuses - {RUN_STATUS_CANCELLED} if self is RESUMING else self.statuses)
        spelled = ",".join(str(formatting.RUN_STATUSES[each]) for each in chosen)
        options = {
            "--workflow": workflow_id,
            "--status": spelled,
            "--created-after": _time(after) if after else "",
            "--created-before": _time(before) if before else "",
        }
        given = "".join(f" {name} {quote(value)}" for name, value in options.items() if value)
        return f"workflow-api runs {self.verb}{given} --dry-run"


CANCELLING: Final = RunChange(
    "cancel",
    "cancelled or ending",
    "RunsService/CancelRun",
    frozenset({RUN_STATUS_QUEUED, RUN_STATUS_RUNNING, RUN_STATUS_WAITING_FOR_APPROVAL}),
    frozenset({"already_terminal"}),
    "They end; steps that still execute are interrupted soon after.",
    "Cancel these runs? It cannot be undone.",
)
RESUMING: Final = RunChange(
    "resume",
    "resumed",
    "RunsService/ResumeRun",
    frozenset({RUN_STATUS_FAILED, RUN_STATUS_CANCELLED}),
    frozenset({"already_purged"}),
    "A new run takes over from each, with the inputs that it had: it reuses the values and files of the steps that"
    " completed and of which nothing has changed, and executes the others. Each counts as one start of the key that"
    " started the run.",
    "",
    takes_reason=False,
)
ERASING: Final = RunChange(
    "erase",
    "erased",
    "RunsService/EraseRunData",
    frozenset({RUN_STATUS_COMPLETED, RUN_STATUS_FAILED, RUN_STATUS_CANCELLED}),
    frozenset({"already_purged"}),
    "Inputs, results, outputs, logs and events are erased; ids, status, times and counts stay.",
    "Erase the data of these runs? It cannot be undone.",
)
CHANGES: Final = (CANCELLING, RESUMING, ERASING)

DONE: Final = "done"
SKIPPED: Final = "skipped"
REFUSED: Final = "refused"
_OUTCOMES: Final = frozenset({DONE, SKIPPED, REFUSED})


class RunOutcome(NamedTuple):
    """The outcome of one run: `done` with a word, `skipped` or `refused` with the reason; the new run of a resumed."""

    run_id: str
    kind: str
    text: str
    new_run_id: str = ""

    def to_field(self) -> str:
        """Returns the outcome as the value of a form's field."""
        return f"{self.run_id}\t{self.kind}\t{self.new_run_id}\t{self.text}"

    @classmethod
    def from_field(cls, value: str) -> "RunOutcome | None":
        """Returns the outcome that a form's field holds; None for another text."""
        parts = value.split("\t", 3)
        if len(parts) != len(cls._fields) or parts[1] not in _OUTCOMES:
            return None
        run_id, kind, new_run_id, text = parts
        return cls(run_id[:_ID_CHARS], kind, text[:MAX_TEXT_CHARS], new_run_id[:_ID_CHARS])


def _time(milliseconds: int) -> str:
    return to_timestamp(milliseconds).ToJsonString()
