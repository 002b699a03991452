"""Which runs a change of many concerns."""

import shlex

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from console.run.changes import CANCELLING, ERASING, RESUMING, RunChange, RunOutcome
from deploy.cli import many_runs
from tests.unit.console.run_answers import summary
from workflow_api.v1.runs_pb2 import (
    RUN_STATUS_CANCELLED,
    RUN_STATUS_COMPLETED,
    RUN_STATUS_FAILED,
    RUN_STATUS_QUEUED,
    RUN_STATUS_RUNNING,
    CancelRunResponse,
    Run,
)

ERASED = Run(summary=summary(status=RUN_STATUS_FAILED), data_purged_at=Timestamp(seconds=1))
RESUMED = Run(summary=summary(status=RUN_STATUS_FAILED), resumed_by="run_9")


def run(status: int) -> Run:
    return Run(summary=summary(status=status))


@pytest.mark.parametrize(
    ("change", "of_command"),
    [(CANCELLING, many_runs.CANCELLING), (RESUMING, many_runs.RESUMING), (ERASING, many_runs.ERASING)],
)
def test_the_console_and_the_command_have_the_rules_and_words_in_common(
    change: RunChange, of_command: many_runs.ManyRuns
) -> None:
    assert (change.verb, change.done) == (of_command.verb, of_command.done)
    assert change.statuses == set(of_command.statuses)
    assert change.nothing_to_do == of_command.nothing_to_do


@pytest.mark.parametrize(
    ("change", "given", "reason"),
    [
        (CANCELLING, run(RUN_STATUS_QUEUED), ""),
        (CANCELLING, run(RUN_STATUS_COMPLETED), "It has ended already."),
        (CANCELLING, ERASED, "It has ended already."),
        (RESUMING, run(RUN_STATUS_CANCELLED), ""),
        (RESUMING, run(RUN_STATUS_RUNNING), "It has not ended."),
        (RESUMING, run(RUN_STATUS_COMPLETED), "It has completed."),
        (RESUMING, RESUMED, "run_9 has taken over from it already."),
        (RESUMING, ERASED, "Its data is erased already."),
        (ERASING, RESUMED, ""),
        (ERASING, run(RUN_STATUS_RUNNING), "It has not ended."),
        (ERASING, ERASED, "Its data is erased already."),
    ],
)
def test_a_run_is_left_out_with_the_reason(change: RunChange, given: Run, reason: str) -> None:
    assert change.left_out(given) == reason


def test_a_form_resumes_each_of_its_runs_with_a_key_of_its_own() -> None:
    def key(run_id: str, once: str) -> str:
        return str(getattr(RESUMING.request(run_id, "", once), "idempotency_key", ""))

    assert key("run_1", "a") == key("run_1", "a") != ""
    assert len({key("run_1", "a"), key("run_2", "a"), key("run_1", "b")}) == 3
    assert len(key("run_1", "é" * 10_000)) <= 128


def test_the_command_has_the_filters_of_the_list_and_never_none() -> None:
    by_filters = CANCELLING.command("wf_1", [RUN_STATUS_RUNNING, RUN_STATUS_FAILED], 1_000, 2_000)
    assert by_filters == (
        "workflow-api runs cancel --workflow wf_1 --status running --created-after 1970-01-01T00:00:01Z"
        " --created-before 1970-01-01T00:00:02Z --dry-run"
    )
    assert RESUMING.command("", [], 0, 0) == "workflow-api runs resume --status failed --dry-run"
    assert ERASING.command("", [], 0, 0) == "workflow-api runs erase --status completed,failed,cancelled --dry-run"
    assert ERASING.command("wf_1", [RUN_STATUS_RUNNING], 0, 0) == ""


def test_a_filter_is_one_word_of_the_command() -> None:
    assert shlex.split(CANCELLING.command("$(reboot); wf_1\n'", [], 0, 0))[4] == "$(reboot); wf_1\n'"


def test_a_run_that_still_executes_is_ending() -> None:
    ending = CANCELLING.outcome("run_1", CancelRunResponse(status=RUN_STATUS_RUNNING))
    assert ending.text == "ending"
    assert CANCELLING.outcome("run_1", CancelRunResponse(status=RUN_STATUS_CANCELLED)).text == "cancelled"


def test_an_outcome_is_read_from_the_field_that_it_was_written_to() -> None:
    outcome = RunOutcome("run_1", "refused", "Not\tnow.", "")
    assert RunOutcome.from_field(outcome.to_field()) == outcome
    assert [RunOutcome.from_field(text) for text in ("", "a\tb", "run_1\tother\t\t")] == [None, None, None]
    long = RunOutcome.from_field("\t".join(("r" * 9_000, "refused", "n" * 9_000, "t" * 9_000)))
    assert long is not None
    assert [len(part) for part in long] == [128, len("refused"), 500, 128]
