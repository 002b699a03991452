import asyncio
import json
import re
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from edge.console import run_events
from edge.console.run_events import PAGE
from edge.console.visit import ADMINISTRATORS, EventStream, Redirect, View
from edge.errors import Refusal
from tests.unit.edge.console.seen import APPROVER, Answer, MemoryServices, answered, html, roles_of
from workflow_api.v1 import runs_pb2
from workflow_api.v1.logs_pb2 import ListRunLogsResponse, RunLog, RunLogSummary
from workflow_api.v1.outputs_pb2 import ListOutputsResponse, Output
from workflow_api.v1.reviews_pb2 import APPROVAL_STATE_APPROVED, Decision, ListDecisionsResponse
from workflow_api.v1.runs_pb2 import (
    RUN_STATUS_CANCELLED,
    RUN_STATUS_COMPLETED,
    RUN_STATUS_RUNNING,
    RUN_STATUS_WAITING_FOR_APPROVAL,
    Approval,
    CancelRunResponse,
    Event,
    ListPendingApprovalsResponse,
    ListRunEventsResponse,
    ListRunStepsResponse,
    PendingApproval,
    Run,
    RunCounts,
    RunSummary,
    Segment,
    Step,
)

EVIL = "<script>alert(1)</script>"
HERE = {"run_id": "run_1"}
ONE = "/runs/{run_id}"


def summary(**other: Any) -> RunSummary:
    fields: dict[str, Any] = {
        "run_id": "run_1",
        "workflow_id": "wf_1",
        "workflow_name": "Digest",
        "version": 2,
        "status": RUN_STATUS_RUNNING,
        "created_at": Timestamp(seconds=1_790_000_000),
        "counts": RunCounts(steps_total=2, steps_completed=1),
    }
    return RunSummary(**{**fields, **other})


def events(last_seq: int, *segments: str) -> ListRunEventsResponse:
    """Returns the answer for a run with `last_seq` events in its latest segment, without the events."""
    begun = [Segment(segment_id=each, ordinal=n, last_seq=last_seq) for n, each in enumerate(segments or ("seg_1",), 1)]
    return ListRunEventsResponse(run_id="run_1", segment_id=begun[-1].segment_id, segments=begun)


def services(run: Run | None = None, **answers: Any) -> MemoryServices:
    """Returns services that know one run; `answers` adds answers by the name of the RPC."""
    known: dict[str, Answer] = {
        "RunsService/GetRun": run or Run(summary=summary()),
        "ReviewsService/ListDecisions": ListDecisionsResponse(),
        "LogsService/ListRunLogs": ListRunLogsResponse(),
        "RunsService/ListRunSteps": ListRunStepsResponse(items=[Step(step="count", name="Count")]),
        "RunsService/ListPendingApprovals": ListPendingApprovalsResponse(),
        "RunsService/ListRunEvents": events(0),
        "OutputsService/ListOutputs": Refusal("run_not_terminal"),
    }
    # By the name of the RPC, which is unlike in every service.
    by_name = {name.rpartition("/")[2]: name for name in [*known, "RunsService/CancelRun"]}
    return MemoryServices({**known, **{by_name[name]: answer for name, answer in answers.items()}})


def test_a_run_shows_its_board_as_a_drawing_and_as_a_table() -> None:
    steps = [
        Step(
            step="count",
            name="Count",
            status=runs_pb2.STEP_STATUS_COMPLETED,
            duration=Duration(seconds=3, nanos=200_000_000),
        ),
        Step(step="check", name="Check", kind=runs_pb2.STEP_KIND_APPROVAL, needs=["count"]),
    ]
    page = html(answered(services(ListRunSteps=ListRunStepsResponse(items=steps)), "GET", ONE, HERE))
    assert page.count("<rect ") == 2
    assert page.count('<path class="need"') == 1
    assert '<g class="step good">' in page
    assert "3.2 s" in page


def test_values_of_a_run_are_escaped() -> None:
    run = Run(
        summary=summary(
            workflow_name=EVIL,
            status=RUN_STATUS_COMPLETED,
            client_reference=EVIL,
            labels={EVIL: EVIL},
            warnings=[EVIL],
        ),
        parameters=json.dumps({EVIL: EVIL}),
        input_text=EVIL,
        summary_markdown=f"# {EVIL}",
        result=json.dumps(EVIL),
        error=runs_pb2.RunError(code="node_failed", message=EVIL),
    )
    log = events(1)
    log.events.append(Event(seq=1, type="step.progress", step=EVIL, data=json.dumps({"message": EVIL})))
    waits = Approval(approval_id="apr_1", title=EVIL, instructions=EVIL)
    page = html(
        answered(
            services(
                run,
                ListRunSteps=ListRunStepsResponse(items=[Step(step="a"), Step(step=EVIL, name=EVIL, needs=["a"])]),
                ListRunEvents=log,
                ListPendingApprovals=ListPendingApprovalsResponse(
                    items=[PendingApproval(approval=waits, run_id="run_1", workflow_name=EVIL)]
                ),
                ListOutputs=ListOutputsResponse(items=[Output(path=EVIL, media_type=EVIL)]),
            ),
            "GET",
            ONE,
            HERE,
        )
    )
    assert "alert(1)" in page
    assert EVIL not in page


def test_no_page_has_inline_styles_or_scripts() -> None:
    page = html(answered(services(), "GET", ONE, HERE))
    assert not re.search(r"\sstyle=|\son\w+=|<style|<script(?! src=)", page)


def test_an_erased_run_says_so_and_makes_no_more_calls() -> None:
    run = Run(summary=summary(status=RUN_STATUS_COMPLETED), data_purged_at=Timestamp(seconds=1_790_000_900))
    backend = services(run)
    page = html(answered(backend, "GET", ONE, HERE))
    assert "was erased" in page
    assert [rpc for rpc, _ in backend.calls] == ["RunsService/GetRun"]


@pytest.mark.parametrize(("part", "code"), [("GetRun", "run_not_found"), ("ListRunSteps", "not_found")])
def test_an_unknown_run_is_reported(part: str, code: str) -> None:
    backend = services()
    backend.answers[f"RunsService/{part}"] = Refusal(code, "The run is gone.")
    answer = answered(backend, "GET", ONE, HERE)
    assert isinstance(answer, View)
    assert answer.status == 404
    assert "The run is gone." in html(answer)


def test_only_approvals_of_the_run_are_shown_with_it() -> None:
    items = [
        PendingApproval(approval=Approval(approval_id=f"apr_{n}", title=f"Title {n}"), run_id=f"run_{n}")
        for n in (1, 2)
    ]
    page = html(answered(services(ListPendingApprovals=ListPendingApprovalsResponse(items=items)), "GET", ONE, HERE))
    assert 'action="/approvals/apr_1"' in page
    assert "apr_2" not in page


def test_withheld_outputs_are_reported_with_the_reason() -> None:
    page = html(answered(services(ListOutputs=Refusal("redaction_pending", "Not swept yet.")), "GET", ONE, HERE))
    assert "Not swept yet." in page


def test_the_last_page_of_a_long_segment_is_shown_first() -> None:
    def read(request: runs_pb2.ListRunEventsRequest) -> ListRunEventsResponse:
        page = events(450)
        page.next_after_seq = min(450, request.after_seq + request.page_size)
        return page

    backend = services(ListRunEvents=read)
    page = html(answered(backend, "GET", ONE, HERE))
    assert [asked.after_seq for asked in backend.asked("RunsService/ListRunEvents")] == [0, 450 - PAGE]
    assert f"after_seq={450 - 2 * PAGE}#events" in page
    assert "Later events" not in page


@pytest.mark.parametrize(("status", "user_may"), [(RUN_STATUS_RUNNING, True), (RUN_STATUS_COMPLETED, False)])
def test_a_running_run_has_a_cancel_form_and_live_updates(status: Any, user_may: bool) -> None:
    backend = services(Run(summary=summary(status=status)))
    if status == RUN_STATUS_COMPLETED:
        backend.answers["OutputsService/ListOutputs"] = ListOutputsResponse()
    page = html(answered(backend, "GET", ONE, HERE))
    assert ('action="/runs/run_1/cancel"' in page) == user_may
    assert ('data-stream="/runs/run_1/stream?' in page) == user_may


def test_only_administrators_cancel() -> None:
    assert roles_of("POST", "/runs/{run_id}/cancel") == ADMINISTRATORS
    assert "/cancel" not in html(answered(services(), "GET", ONE, HERE, user=APPROVER), APPROVER)


def test_a_cancellation_is_sent_with_its_reason() -> None:
    backend = services(CancelRun=CancelRunResponse(run_id="run_1", status=RUN_STATUS_CANCELLED))
    answer = answered(backend, "POST", ONE + "/cancel", HERE, form={"reason": " too late "})
    assert answer == Redirect("/runs/run_1", "The run is cancelled.")
    assert backend.asked("RunsService/CancelRun") == [runs_pb2.CancelRunRequest(run_id="run_1", reason="too late")]


def test_a_late_cancellation_is_a_notice_and_no_error() -> None:
    answer = answered(services(CancelRun=Refusal("already_terminal")), "POST", ONE + "/cancel", HERE)
    assert answer == Redirect("/runs/run_1", "Nothing was changed: the run had ended already.")


def test_a_reason_that_is_too_long_changes_nothing() -> None:
    backend = services()
    answer = answered(backend, "POST", ONE + "/cancel", HERE, form={"reason": "x" * 501})
    assert isinstance(answer, Redirect)
    assert "500" in answer.notice
    assert not backend.calls


def followed(backend: MemoryServices, **seen: str) -> list[str]:
    answer = answered(backend, "GET", ONE + "/stream", HERE, query=seen)
    assert isinstance(answer, EventStream)

    async def read() -> list[str]:
        return [f"{event} {data}" async for event, data in answer.events]

    return asyncio.run(read())


def test_live_updates_report_events_segments_and_statuses_until_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_events, "POLL_SECONDS", 0)
    rounds = iter(
        [
            (RUN_STATUS_RUNNING, events(3)),
            (RUN_STATUS_RUNNING, events(4)),
            (RUN_STATUS_WAITING_FOR_APPROVAL, events(4)),
            (RUN_STATUS_WAITING_FOR_APPROVAL, events(4)),
            (RUN_STATUS_RUNNING, events(1, "seg_1", "seg_2")),
            (RUN_STATUS_COMPLETED, events(2, "seg_1", "seg_2")),
        ]
    )
    now: list[Any] = []

    def run(_: Any) -> Run:
        now[:] = next(rounds)
        return Run(summary=summary(status=now[0]))

    backend = services(GetRun=run, ListRunEvents=lambda _: now[1], ListOutputs=ListOutputsResponse())
    assert followed(backend, status="running", segment="seg_1", seq="3") == [
        "refresh running seg_1 4",
        "refresh waiting_for_approval seg_1 4",
        "refresh running seg_2 1",
        "refresh completed seg_2 2",
    ]


def test_live_updates_wait_for_the_event_after_those_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_events, "POLL_SECONDS", 0)
    rounds = iter([RUN_STATUS_RUNNING, RUN_STATUS_COMPLETED])
    backend = services(
        GetRun=lambda _: Run(summary=summary(status=next(rounds))),
        ListRunEvents=events(3),
        ListOutputs=ListOutputsResponse(),
    )
    backend.streams["RunsService/WatchRunEvents"] = [runs_pb2.WatchRunEventsResponse(segment_id="seg_1")]
    assert followed(backend, status="running", segment="seg_1", seq="3") == ["refresh completed seg_1 3"]
    assert backend.asked("RunsService/WatchRunEvents") == [
        runs_pb2.WatchRunEventsRequest(run_id="run_1", segment="seg_1", after_seq=3)
    ]


def test_live_updates_report_when_outputs_become_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_events, "POLL_SECONDS", 0)
    withheld = iter([True, True, False])

    def outputs(_: Any) -> ListOutputsResponse:
        if next(withheld):
            raise Refusal("redaction_pending")
        return ListOutputsResponse()

    backend = services(Run(summary=summary(status=RUN_STATUS_COMPLETED)), ListRunEvents=events(3), ListOutputs=outputs)
    seen = {"status": "completed", "segment": "seg_1", "seq": "3"}
    assert followed(backend, **seen) == ["refresh completed seg_1 3"]


def test_live_updates_of_an_erased_run_reload_the_page() -> None:
    assert followed(services(ListRunEvents=Refusal("not_found"))) == ["reload not_found"]


def test_live_updates_end_when_services_are_unreachable() -> None:
    with pytest.raises(Refusal, match="runtime_unreachable"):
        followed(services(GetRun=Refusal("runtime_unreachable")))


def test_decisions_are_listed_with_who_made_them() -> None:
    decision = Decision(
        title="Look",
        step="review",
        state=APPROVAL_STATE_APPROVED,
        decided_by="user:ada",
        decided_at=Timestamp(seconds=1),
    )
    page = html(answered(services(ListDecisions=ListDecisionsResponse(items=[decision])), "GET", ONE, HERE))
    assert "user:ada" in page
    assert "approved" in page


def test_the_log_of_a_failed_step_is_on_the_page_of_its_run_for_administrators_only() -> None:
    step = Step(step="count", status=runs_pb2.STEP_STATUS_FAILED)
    summary = RunLogSummary(step="count", attempt=1, last_part=2)
    backend = services(
        ListRunSteps=ListRunStepsResponse(items=[step]), ListRunLogs=ListRunLogsResponse(items=[summary])
    )
    backend.answers["LogsService/GetRunLog"] = RunLog(log=summary, text=f"KeyError: {EVIL}", cut=True)
    page = html(answered(backend, "GET", ONE, HERE))
    assert "KeyError: &lt;script" in page
    assert EVIL not in page
    assert 'href="/runs/run_1/logs/count"' in page
    seen = html(answered(backend, "GET", ONE, HERE, user=APPROVER), APPROVER)
    assert "KeyError" not in seen
    assert "/logs/" not in seen
