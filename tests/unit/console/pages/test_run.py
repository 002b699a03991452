import json
import re

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from console.run import bounds
from console.run.events import PAGE
from console.run.tabs import TABS
from console.visit import ADMINISTRATORS, Redirect, View
from contract.refusals import Refusal
from tests.unit.console.run_answers import EVIL, HERE, ONE, events, services, summary
from tests.unit.console.seen import APPROVER, MOST_BYTES, UNSEEN, answered, html, roles_of, sent_html
from workflow_api.v1 import runs_pb2
from workflow_api.v1.logs_pb2 import ListRunLogsResponse, RunLog, RunLogSummary
from workflow_api.v1.outputs_pb2 import ListOutputsResponse, Output
from workflow_api.v1.previews_pb2 import GetStepPreviewRequest, StepFile, StepPreview, SummaryPreview
from workflow_api.v1.reviews_pb2 import (
    APPROVAL_STATE_APPROVED,
    APPROVAL_STATE_PENDING,
    Decision,
    GetReviewRequest,
    ListDecisionsResponse,
    Review,
    ReviewText,
)
from workflow_api.v1.run_lists_pb2 import ChildRun, ListChildRunsResponse
from workflow_api.v1.runs_pb2 import (
    RUN_STATUS_COMPLETED,
    RUN_STATUS_FAILED,
    STEP_STATUS_FAILED,
    TRIGGERED_BY_API_KEY,
    Approval,
    EraseRunDataResponse,
    Event,
    ListPendingApprovalsResponse,
    ListRunEventsResponse,
    ListRunStepsResponse,
    PendingApproval,
    Run,
    Step,
)
from workflow_api.v1.workflows_pb2 import VersionResource, WorkflowDefinition

EVENTS = {"tab": "events"}
RESULTS = {"tab": "results"}


def test_a_run_shows_its_steps_as_a_graph_and_over_time() -> None:
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
    assert page.count('<g class="step') == 2
    assert page.count('<path class="need" marker-end') == 1
    assert '<g class="step good">' in page
    assert "3.2 s" in page


def test_a_fan_out_shows_its_items_and_their_logs() -> None:
    items = runs_pb2.StepItems(total=1_000, completed=60, failed=2)
    steps = [Step(step="page", name="Page", status=runs_pb2.STEP_STATUS_RUNNING, items=items)]
    logs = [RunLogSummary(step=f"page/{index}", attempt=1) for index in reversed(range(60))]
    backend = services(ListRunSteps=ListRunStepsResponse(items=steps), ListRunLogs=ListRunLogsResponse(items=logs))
    page = html(answered(backend, "GET", ONE, HERE, query={"step": "page"}))
    assert "60 of 1000 items, 2 failed" in page
    assert 'href="/runs/run_1/logs/page%2F0"' in page
    assert page.count("/logs/page%2F") == 50
    assert "/logs/page%2F50" not in page


def test_a_run_of_hundreds_of_steps_shows_some_of_them_at_a_time() -> None:
    names = [f"step-with-a-long-handle-{number}" for number in range(300)]
    steps = [Step(step=name, name=f"<b>{name}", needs=names[:place]) for place, name in enumerate(names)]
    backend = services(ListRunSteps=ListRunStepsResponse(items=steps))
    for query, first in (({}, 0), ({"steps": "8"}, 140), ({"step": names[100]}, 100), ({"steps": "16"}, 0)):
        page = html(answered(backend, "GET", ONE, HERE, query=query))
        assert len(page.encode()) < 100_000
        assert f'id="row-{names[first]}"' in page
        assert page.count('<g class="step') == 20
    assert 'href="/runs/run_1?steps=8#steps"' in page


@pytest.mark.parametrize(("count", "needs", "title"), [(40, 2, ""), (20, 20, "A name of forty characters or so")])
def test_a_run_of_usual_steps_shows_them_all_at_once(count: int, needs: int, title: str) -> None:
    names = [f"step-{number:02}" for number in range(count)]
    steps = [Step(step=name, name=title, needs=names[max(0, n - needs) : n]) for n, name in enumerate(names)]
    page = html(answered(services(ListRunSteps=ListRunStepsResponse(items=steps)), "GET", ONE, HERE))
    assert page.count('<g class="step') == count


def test_many_approvals_and_decisions_of_a_run_are_on_several_pages() -> None:
    when = Timestamp(seconds=1_790_000_000)
    waits = [
        PendingApproval(
            approval=Approval(approval_id=f"apr_{n:026}", title="<" * 200, step="s" * 64, instructions="<" * 4_000),
            run_id="run_1",
        )
        for n in range(100)
    ]
    made = [Decision(title="<" * 200, step="s" * 64, decided_by="user:ana", decided_at=when) for _ in range(300)]
    backend = services(
        ListPendingApprovals=ListPendingApprovalsResponse(items=waits),
        ListDecisions=ListDecisionsResponse(items=made),
    )
    page = sent_html(answered(backend, "GET", ONE, HERE))
    assert len(page.encode()) < 100_000
    assert page.count('<article class="approval"') == bounds.APPROVALS
    assert f'<a href="/runs/run_1?approvals={bounds.APPROVALS}#approvals" rel="next">' in page
    page = sent_html(answered(backend, "GET", ONE, HERE, query=EVENTS))
    assert len(page.encode()) < 100_000
    assert f"1 to {bounds.DECISIONS} of 300" in page
    # The addresses of before the page had tabs.
    for query, end in (({"decisions": "295"}, "296 to 300 of 300"), ({"approvals": "98"}, f"apr_{99:026}")):
        last = html(answered(backend, "GET", ONE, HERE, query=query))
        assert end in last
        assert last.count('rel="next"') == 0


def test_a_run_lists_the_children_that_its_steps_started() -> None:
    step = Step(step="pay", name="Pay", kind=runs_pb2.STEP_KIND_WORKFLOW)
    child = ChildRun(
        run=summary(run_id="run_2", workflow_name=EVIL, status=RUN_STATUS_FAILED), step="pay", item_index=3
    )
    backend = services(
        ListRunSteps=ListRunStepsResponse(items=[step]), ListChildRuns=ListChildRunsResponse(items=[child])
    )
    page = html(answered(backend, "GET", ONE, HERE))
    assert '<a href="/runs/run_2">run_2</a>' in page
    assert "item 3" in page
    assert EVIL not in page


def test_a_child_leads_back_to_the_step_that_started_it() -> None:
    run = Run(summary=summary(), parent_run_id="run_0", parent_step="pay")
    page = html(answered(services(run), "GET", ONE, HERE))
    assert '<a href="/runs/run_0?step=pay">run_0</a>' in page


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
    backend = services(
        run,
        ListRunSteps=ListRunStepsResponse(items=[Step(step="a"), Step(step=EVIL, name=EVIL, needs=["a"])]),
        ListRunEvents=log,
        ListPendingApprovals=ListPendingApprovalsResponse(
            items=[PendingApproval(approval=waits, run_id="run_1", workflow_name=EVIL)]
        ),
        ListOutputs=ListOutputsResponse(items=[Output(path=EVIL, media_type=EVIL)]),
    )
    for tab in TABS:
        page = html(answered(backend, "GET", ONE, HERE, query={"tab": tab}))
        assert "alert(1)" in page
        assert EVIL not in page


def test_what_nobody_sees_in_the_texts_of_a_run_is_marked() -> None:
    steps = ListRunStepsResponse(items=[Step(step="a", name=f"first{UNSEEN}")])
    run = Run(summary=summary(workflow_name=f"daily{UNSEEN}", client_reference=UNSEEN), input_text=UNSEEN)
    page = html(answered(services(run, ListRunSteps=steps), "GET", ONE, HERE))
    for name in ("daily", "first"):
        assert f"{name}⟨U+001B⟩[31m⟨U+0007⟩⟨U+007F⟩⟨U+009B⟩⟨U+200B⟩⟨U+200E⟩⟨U+202E⟩⟨U+2066⟩⟨U+FEFF⟩" in page


@pytest.mark.parametrize("tab", TABS)
def test_no_page_has_inline_styles_or_scripts(tab: str) -> None:
    page = html(answered(services(), "GET", ONE, HERE, query={"tab": tab}))
    assert not re.search(r"\sstyle=|\son\w+=|<style|<script(?! src=)", page)


def test_an_erased_run_says_so_and_makes_no_more_calls() -> None:
    run = Run(summary=summary(status=RUN_STATUS_COMPLETED), data_purged_at=Timestamp(seconds=1_790_000_900))
    backend = services(run)
    page = html(answered(backend, "GET", ONE, HERE))
    assert "was erased" in page
    assert [rpc for rpc, _ in backend.calls] == ["RunsService/GetRun"]


def test_an_erased_run_that_failed_shows_its_code_alone() -> None:
    failed = runs_pb2.RunError(code="invariant_blocked")
    run = Run(summary=summary(status=RUN_STATUS_FAILED), error=failed, data_purged_at=Timestamp(seconds=1_790_000_900))
    page = html(answered(services(run), "GET", ONE, HERE))
    assert "invariant_blocked" in page
    assert "was rejected by" not in page


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
    backend = services(ListPendingApprovals=ListPendingApprovalsResponse(items=items))
    page = html(answered(backend, "GET", ONE, HERE))
    assert 'action="/approvals/apr_1"' in page
    assert "apr_2" not in page
    assert [asked.run_id for asked in backend.asked("RunsService/ListPendingApprovals")] == ["run_1"]


def test_an_approval_is_decided_with_its_run_only_once_its_material_is_prepared() -> None:
    items = [PendingApproval(approval=Approval(approval_id=f"apr_{n}"), run_id="run_1") for n in (1, 2)]

    def review(asked: GetReviewRequest) -> Review:
        (pending,) = (each for each in items if each.approval.approval_id == asked.approval_id)
        return Review(pending=pending, state=APPROVAL_STATE_PENDING, preparing=asked.approval_id == "apr_1")

    backend = services(ListPendingApprovals=ListPendingApprovalsResponse(items=items), GetReview=review)
    page = html(answered(backend, "GET", ONE, HERE))
    assert re.findall(r'action="/approvals/([^"]*)"', page) == ["apr_2"]
    assert page.count('name="decision"') == 2
    link = (
        '<a class="button quiet" href="/approvals/apr_1">Decide it on its page, once what it is about has been prepared'
    )
    assert link in page


def test_withheld_outputs_are_reported_with_the_reason() -> None:
    page = html(
        answered(services(ListOutputs=Refusal("redaction_pending", "Not swept yet.")), "GET", ONE, HERE, query=RESULTS)
    )
    assert "Not swept yet." in page


def test_the_last_page_of_a_long_segment_is_shown_first() -> None:
    def read(request: runs_pb2.ListRunEventsRequest) -> ListRunEventsResponse:
        page = events(450)
        page.next_after_seq = min(450, request.after_seq + request.page_size)
        return page

    backend = services(ListRunEvents=read)
    page = html(answered(backend, "GET", ONE, HERE, query=EVENTS))
    assert [asked.after_seq for asked in backend.asked("RunsService/ListRunEvents") if not asked.types] == [
        0,
        450 - PAGE,
    ]
    assert f"after_seq={450 - 2 * PAGE}#events" in page
    assert "Later events" not in page


def test_decisions_are_listed_with_who_made_them() -> None:
    decision = Decision(
        title="Look",
        step="review",
        state=APPROVAL_STATE_APPROVED,
        decided_by="user:ada",
        decided_at=Timestamp(seconds=1),
    )
    page = html(
        answered(services(ListDecisions=ListDecisionsResponse(items=[decision])), "GET", ONE, HERE, query=EVENTS)
    )
    assert "<td>ada</td>" in page
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


def test_a_run_names_its_key_with_a_link_for_administrators() -> None:
    run = Run(summary=summary(), triggered_by=TRIGGERED_BY_API_KEY, key_id="ak_1", started_by="warehouse")
    assert '<a href="/keys/ak_1">warehouse</a>' in html(answered(services(run), "GET", ONE, HERE))
    seen = html(answered(services(run), "GET", ONE, HERE, user=APPROVER), APPROVER)
    assert "warehouse" in seen
    assert "/keys/ak_1" not in seen


def test_run_again_leads_administrators_to_the_form_with_the_inputs_of_the_run() -> None:
    link = 'href="/workflows/wf_1/start?run=run_1"'
    assert link in html(answered(services(), "GET", ONE, HERE))
    assert link not in html(answered(services(), "GET", ONE, HERE, user=APPROVER), APPROVER)
    erased = Run(summary=summary(), data_purged_at=Timestamp(seconds=1))
    assert link not in html(answered(services(erased), "GET", ONE, HERE))


def test_the_duration_of_a_running_run_counts_and_of_an_ended_one_stands() -> None:
    started = Timestamp(seconds=1_790_000_010)
    assert "data-elapsed=" in html(answered(services(Run(summary=summary(started_at=started))), "GET", ONE, HERE))
    ended = summary(status=RUN_STATUS_COMPLETED, started_at=started, duration=Duration(seconds=75))
    page = html(answered(services(Run(summary=ended), ListOutputs=ListOutputsResponse()), "GET", ONE, HERE))
    assert "data-elapsed=" not in page
    assert "1 min 15 s" in page
    assert "after 10 s in the queue" in page


def test_a_summary_is_shown_as_clean_html() -> None:
    run = Run(summary=summary(status=RUN_STATUS_COMPLETED), summary_markdown="# Hello")
    shown = SummaryPreview(html=f'<h1>Hello</h1>{EVIL}<img src="//x"><a href="javascript:x()" onclick="x()">y</a>')
    backend = services(run, GetSummaryPreview=shown, ListOutputs=ListOutputsResponse())
    page = html(answered(backend, "GET", ONE, HERE, query=RESULTS))
    assert "<h4>Hello</h4>" in page
    assert not re.search("alert|//x|javascript|onclick", page)


STEPS = [
    Step(step="count", name="Count", status=runs_pb2.STEP_STATUS_COMPLETED),
    Step(step="sum", name="Sum", needs=["count"], status=runs_pb2.STEP_STATUS_FAILED, attempt=2),
]


def previews(request: GetStepPreviewRequest) -> StepPreview:
    file = StepFile(output_id="out_1", path=f"{request.step}/a.txt", size_bytes=7)
    return StepPreview(value=ReviewText(text=json.dumps({"of": request.step})), files=[file], files_total=1)


def test_a_selected_step_shows_what_it_needed_and_made() -> None:
    backend = services(ListRunSteps=ListRunStepsResponse(items=STEPS), GetStepPreview=previews)
    page = html(answered(backend, "GET", ONE, HERE, query={"step": "sum"}))
    assert [asked.step for asked in backend.asked("PreviewsService/GetStepPreview")] == ["sum", "count"]
    assert "&#34;of&#34;: &#34;count&#34;" in page
    assert "count/a.txt" in page
    assert page.count('aria-current="true"') == 2, "in the graph and the timeline"
    assert 'href="/runs/run_1?step=count#step"' in page


def test_an_approver_sees_the_name_of_the_agent_of_a_step() -> None:
    backend = services(ListRunSteps=ListRunStepsResponse(items=[Step(step="count", agent_id="ag_1")]))
    backend.answers["WorkflowsService/GetWorkflowDefinition"] = WorkflowDefinition(
        resources=[VersionResource(kind="agent", id="ag_1", name="Counter")]
    )
    page = html(answered(backend, "GET", ONE, HERE, query={"step": "count"}, user=APPROVER), APPROVER)
    assert "Counter" in page
    assert "ag_1" not in page


def test_the_first_failed_step_is_selected_with_what_to_do() -> None:
    failed = Step()
    failed.CopyFrom(STEPS[1])
    failed.error.code, failed.error.message = "node_failed", "ModelTimeout: too slow"
    life = events(2)
    life.events.append(Event(seq=1, type="step.started", step="sum", data='{"attempt": 1}'))
    data = {"code": "node_failed", "type": "ModelTimeout", "message": "too slow", "attempt": 1, "retry_at": None}
    life.events.append(Event(seq=2, type="step.failed", step="sum", data=json.dumps(data)))
    backend = services(ListRunSteps=ListRunStepsResponse(items=[STEPS[0], failed]), ListRunEvents=life)
    page = html(answered(backend, "GET", ONE, HERE))
    assert "The model was too slow. Raise" in page
    assert '<b>Attempt 1</b> <span class="badge bad">failed</span>' in page


def test_events_are_filtered_by_kind_and_step() -> None:
    backend = services()
    page = html(answered(backend, "GET", ONE, HERE, query={"kind": "progress", "of": "count"}))
    asked = backend.asked("RunsService/ListRunEvents")[0]
    assert (list(asked.types), asked.step) == (["step.progress", "step.tool_call"], "count")
    assert '<option value="progress" selected>' in page


def test_long_data_of_an_event_is_cut_and_shown_on_a_page_of_its_own() -> None:
    log = events(1)
    log.events.append(Event(seq=1, type="step.progress", step="a", data=json.dumps({"message": "m", "x": "y" * 9_000})))
    page = html(answered(services(ListRunEvents=log), "GET", ONE, HERE, query=EVENTS))
    assert "y" * 1_000 not in page
    assert 'href="/runs/run_1/events/seg_1/1"' in page
    names = {**HERE, "segment": "seg_1", "seq": "1"}
    whole = html(answered(services(ListRunEvents=log), "GET", ONE + "/events/{segment}/{seq}", names))
    assert "y" * 9_000 in whole
    assert "a: m (x yyy" in whole


def test_a_run_of_usual_size_is_shown_whole_in_less_than_100_kb() -> None:
    error = runs_pb2.RunError(code="node_failed", message="m" * 280)
    step = Step(step="sum", status=STEP_STATUS_FAILED, error=error)
    printed = RunLogSummary(step="sum", attempt=1, last_part=1)
    outputs = [Output(output_id=f"out_{n}", path=f"sum/{n}.txt") for n in range(40)]

    def read(request: runs_pb2.ListRunEventsRequest) -> ListRunEventsResponse:
        page = events(50)
        page.next_after_seq = min(50, request.after_seq + request.page_size)
        for n in range(request.after_seq + 1, page.next_after_seq + 1):
            data = json.dumps({"message": f"event {n}"})
            page.events.append(Event(seq=n, type="step.progress", step="sum", data=data))
        return page

    backend = services(
        Run(summary=summary(status=RUN_STATUS_FAILED), input_text="t" * 10_000),
        ListRunSteps=ListRunStepsResponse(items=[step]),
        ListRunLogs=ListRunLogsResponse(items=[printed]),
        GetRunLog=RunLog(log=printed, text="l" * 6_000),
        ListRunEvents=read,
        ListOutputs=ListOutputsResponse(items=outputs),
        GetStepPreview=StepPreview(value=ReviewText(text=json.dumps("v" * 5_998))),
    )
    pages = {
        tab: html(answered(backend, "GET", ONE, HERE, query={"tab": tab, "of": "sum", "step": "sum"})) for tab in TABS
    }
    assert all(len(page.encode()) < 100_000 for page in pages.values())
    assert all(text in pages["steps"] for text in ("v" * 5_998, "l" * 6_000))
    assert "t" * 10_000 in pages["inputs"]
    assert pages["steps"].count("m" * 280) == 1, "at the selected step"
    assert 'href="/runs/run_1/logs/sum"' in pages["steps"]
    assert (
        pages["events"].count('<details id="event-') == pages["events"].count("{&#34;message&#34;: &#34;event ") == 50
    )
    assert pages["results"].count('aria-label="Download sum/') == 40
    assert 'href="/runs/run_1?tab=events&amp;step=sum&amp;of=sum#events"' in pages["steps"]
    assert not any("rest is not shown" in page for page in pages.values())


def test_a_page_of_a_large_run_has_at_most_100_kb() -> None:
    run = Run(
        summary=summary(status=RUN_STATUS_COMPLETED),
        parameters=json.dumps({"x": "p" * 100_000}),
        input_text="t" * 20_000,
        result=json.dumps("r" * 200_000),
    )
    log = events(50)
    text = json.dumps({"message": "m" * 60_000})
    log.events.extend(Event(seq=n, type="step.progress", step="a", data=text) for n in range(50))
    outputs = [Output(output_id=f"out_{n}", path=f"step/{n}.txt", sha256="0" * 64) for n in range(2_000)]
    backend = services(run, ListRunEvents=log, ListOutputs=ListOutputsResponse(items=outputs))
    for tab in TABS:
        assert len(html(answered(backend, "GET", ONE, HERE, query={"tab": tab})).encode()) < 100_000


@pytest.mark.parametrize("filler", ["m", "<", "ż", "😀", "&\n"])
def test_a_page_with_the_most_of_everything_is_within_its_bound(filler: str) -> None:
    long = filler * 30_000
    when = Timestamp(seconds=1_790_000_000)
    names = [f"step-number-{n:02}-of-all" for n in range(20)]
    steps = [
        Step(
            step=name,
            name=f"The {name}",
            needs=names[:n],
            status=STEP_STATUS_FAILED,
            error=runs_pb2.RunError(code="node_failed", message=long),
        )
        for n, name in enumerate(names)
    ]
    waits = [
        PendingApproval(approval=Approval(approval_id=f"apr_{n}", title="Look", instructions=long), run_id="run_1")
        for n in range(20)
    ]
    log = events(6_000)
    lives = ("step.started", "step.failed")
    log.events.extend(
        Event(seq=n, type=lives[n % 2], step=names[n % 20 // 2], data=json.dumps({"message": long, "n": n}), at=when)
        for n in range(50)
    )
    value = StepPreview(value=ReviewText(text=json.dumps([long])), files_total=100)
    value.files.extend(StepFile(output_id=f"out_{n}", path=f"{n}-{filler * 200}") for n in range(100))
    outputs = [Output(output_id=f"out_{n:032}", path=f"{n}-{filler * 200}", sha256="0" * 64) for n in range(2_000)]
    backend = services(
        Run(
            summary=summary(status=RUN_STATUS_FAILED, warnings=[long] * 9, labels={"team": "x" * 60}),
            error=runs_pb2.RunError(code="node_failed", message=long),
            parameters=json.dumps({"x": long}),
            input_text=long,
            result=json.dumps([long]),
            summary_markdown=long,
        ),
        ListRunSteps=ListRunStepsResponse(items=steps),
        ListRunEvents=log,
        ListPendingApprovals=ListPendingApprovalsResponse(items=waits),
        ListOutputs=ListOutputsResponse(items=outputs),
        GetStepPreview=value,
        GetSummaryPreview=SummaryPreview(html="<p>" + "<b>x</b>" * 9_000),
        GetRunLog=RunLog(log=RunLogSummary(step=names[0], attempt=1), text=long),
    )
    page = sent_html(answered(backend, "GET", ONE, HERE, query={"step": names[19]}))
    assert all(f">The {name}" in page for name in names)
    for tab in TABS:
        assert len(sent_html(answered(backend, "GET", ONE, HERE, query={"tab": tab})).encode()) < MOST_BYTES


def test_an_erasure_is_sent_with_its_reason() -> None:
    backend = services(EraseRunData=EraseRunDataResponse(run_id="run_1"))
    answer = answered(backend, "POST", ONE + "/erase", HERE, form={"reason": "asked for"})
    assert answer == Redirect("/runs/run_1", "The data of the run is erased.")
    assert backend.asked("RunsService/EraseRunData")[0].reason == "asked for"
    assert roles_of("POST", ONE + "/erase") == ADMINISTRATORS
