import asyncio
import re
from typing import Any

import pytest

from console.pages import approval_inbox
from console.routes import PAGES
from console.visit import DECIDERS, PageEvents, Redirect, Visit
from contract.refusals import Refusal
from edge.admission.trial import try_call
from tests.unit.console.pages.test_approvals import DECIDED, EVIL, pending, review, services
from tests.unit.console.seen import APPROVER, MemoryServices, answered, html, roles_of
from workflow_api.v1 import reviews_pb2
from workflow_api.v1.reviews_pb2 import (
    APPROVAL_STATE_REJECTED,
    CountPendingApprovalsResponse,
    Decision,
    ListAllDecisionsResponse,
    PendingGate,
    ReviewFile,
    ReviewMaterial,
    ReviewRow,
    ReviewStep,
    ReviewTable,
    ReviewText,
    RunDecision,
)
from workflow_api.v1.runs_pb2 import ListPendingApprovalsResponse, PendingApproval
from workflow_api.v1.workflows_pb2 import ListWorkflowsResponse

LIST = "RunsService/ListPendingApprovals"
GATE = "review@wf_1"


def inbox(backend: MemoryServices, **query: str) -> str:
    return html(answered(backend, "GET", "/approvals", query=query, user=APPROVER), APPROVER)


def sent(backend: MemoryServices, **form: Any) -> Any:
    (page,) = (each for each in PAGES if each.handler is approval_inbox.decide_several)
    visit = Visit(APPROVER, backend, form={name: [value] for name, value in form.items()}, try_call=try_call)
    visit.form["approval_id"] = form.get("approval_id", ["apr_1"])  # type: ignore[index]

    async def answer() -> Any:
        return await page.handler(visit)

    return asyncio.run(answer())


def test_the_inbox_is_for_everybody_who_decides() -> None:
    assert roles_of("GET", "/approvals") == roles_of("POST", "/approvals/several") == DECIDERS


def test_approvals_are_in_the_order_of_the_service_and_the_first_is_opened() -> None:
    page = inbox(services(pending(1), pending(2)))
    assert page.index("Title 1") < page.index("Title 2")
    assert 'href="/approvals?at=apr_2&amp;open=yes" data-item="apr_2"' in page
    assert 'action="/approvals/apr_1"' in page
    assert "<title>Approvals" in page
    assert "/count-2.svg" in page


def test_a_row_of_the_inbox_tells_its_approval_from_others_of_one_gate() -> None:
    waiting, other = pending(1), pending(2)
    waiting.client_reference = "order-7"
    waiting.summary = "Pay 40 EUR"
    waiting.labels["team"] = "north"
    waiting.started_by = "Warehouse"
    page = inbox(services(waiting, other))
    assert '<span class="summary">order-7: Pay 40 EUR</span>' in page
    assert '<span class="summary">run_2</span>' in page
    assert '<span class="soft">Workflow 1, team: north</span>' in page
    assert re.search(r'<span class="soft">Asked <time datetime="2026-09-21[^<]*</time> by Warehouse</span>', page)


def test_an_empty_inbox_is_a_sentence_without_a_count() -> None:
    page = inbox(services())
    assert "Nothing waits" in page
    assert "<title>Approvals" in page


def test_a_gate_in_the_address_is_asked_for_and_can_be_decided_together() -> None:
    backend = services(pending(1), pending(2))
    gate = PendingGate(workflow_id="wf_1", workflow_name="Digest", step="review", title="Look", pending=2)
    backend.answers["ReviewsService/CountPendingApprovals"] = CountPendingApprovalsResponse(total=9, gates=[gate])
    page = inbox(backend, gate=GATE)
    (asked,) = backend.asked(LIST)
    assert (asked.workflow_id, asked.step) == ("wf_1", "review")
    assert f'<option value="{GATE}" selected>Digest: Look (2)</option>' in page
    assert page.count('type="checkbox" name="approval_id"') == 2
    assert 'type="checkbox"' not in inbox(backend)


def test_what_the_chosen_one_rests_on_stands_beside_its_buttons_shortened() -> None:
    step = ReviewStep(step="count", value=ReviewText(text='"' + "x" * 9_000 + '"'))
    material = ReviewMaterial(steps=[step], input_text=ReviewText(text=EVIL), redacted=True)
    page = inbox(services(pending(), shown=review(pending(), material=material)))
    assert "x" * 3_999 in page
    assert "x" * 4_000 not in page
    assert "All of what is shortened here" in page
    assert "Personal data is replaced" in page
    assert EVIL not in page


def test_the_inbox_has_the_first_rows_of_a_table() -> None:
    table = ReviewTable(columns=["n"], rows=[ReviewRow(cells=[f"row-{n}"]) for n in range(50)])
    material = ReviewMaterial(steps=[ReviewStep(files=[ReviewFile(path="t.csv", table=table)])])
    page = inbox(services(pending(), shown=review(pending(), material=material)))
    assert "row-9" in page
    assert "row-10" not in page
    assert 'href="/approvals/apr_1/material/0?begin=10&amp;before=0"' in page


def test_a_page_of_many_long_texts_stays_small() -> None:
    files = [ReviewFile(path=f"f{n}.txt", text=ReviewText(text="y" * 60_000)) for n in range(20)]
    step = ReviewStep(step="s", files=files, files_total=20)
    material = ReviewMaterial(steps=[step] * 20)
    waiting = [pending(number) for number in range(1, 51)]
    for each in waiting:
        each.labels.update({f"{n}{'n' * 60}": "v" * 256 for n in range(10)})
    page = inbox(services(*waiting, shown=review(pending(), material=material)))
    assert len(page.encode()) < 100_000


def test_a_decision_in_the_inbox_leads_back_to_it() -> None:
    form = {"decision": "approve", "inbox": "yes", "gate": GATE}
    answer = answered(services(pending()), "POST", "/approvals/{approval_id}", {"approval_id": "apr_1"}, form=form)
    notice = "Approved “Title 1” of Workflow 1: the run continues."
    assert answer == Redirect("/approvals?gate=review%40wf_1", notice, link=("Open the run", "/runs/run_1"))


@pytest.mark.parametrize(("at", "following"), [("apr_1", "apr_2"), ("apr_2", "apr_3"), ("apr_3", "apr_2")])
def test_a_decision_in_the_inbox_goes_on_with_the_next_of_the_list(at: str, following: str) -> None:
    listed = [pending(number) for number in (1, 2, 3)]
    shown = review(listed[int(at[-1]) - 1], material=ReviewMaterial())
    assert f'name="next" value="{following}"' in inbox(services(*listed, shown=shown), at=at)
    form = {"decision": "approve", "inbox": "yes", "next": following}
    answer = answered(services(*listed), "POST", "/approvals/{approval_id}", {"approval_id": "apr_1"}, form=form)
    assert isinstance(answer, Redirect)
    assert answer.to == f"/approvals?at={following}"


def test_several_are_decided_only_after_a_second_page() -> None:
    backend = services(pending(1), pending(2), decided=DECIDED)
    page = html(sent(backend, gate=GATE, decision="reject", comment="late", approval_id=["apr_1", "apr_2"]))
    assert "Reject 2 approvals?" in page
    assert 'name="sure" value="yes"' in page
    assert not backend.asked("RunsService/DecideApproval")


def test_several_of_one_gate_are_decided_and_what_is_not_there_is_told() -> None:
    other = pending(3)
    other.approval.step = "another"
    backend = services(pending(1), pending(2), other, decided=DECIDED)
    chosen = ["apr_1", "apr_2", "apr_3"]
    answer = sent(backend, gate=GATE, decision="approve", comment="fine", sure="yes", approval_id=chosen)
    assert answer == Redirect("/approvals?gate=review%40wf_1", "Approved: 2. No longer pending: 1.")
    decided = backend.asked("RunsService/DecideApproval")
    assert [(each.approval_id, each.approve, each.comment) for each in decided] == [
        ("apr_1", True, "fine"),
        ("apr_2", True, "fine"),
    ]


def test_several_read_only_the_chosen_ones() -> None:
    backend = services(*(pending(number) for number in range(1, 40)))
    sent(backend, gate=GATE, decision="approve", sure="yes", approval_id=["apr_1", "apr_2", "apr_1"])
    assert [each.approval_id for each in backend.asked("ReviewsService/GetReview")] == ["apr_1", "apr_2"]
    assert not backend.asked(LIST)


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_several_are_decided_but_for_those_that_are_still_being_prepared(decision: str) -> None:
    backend = services(decided=DECIDED)
    backend.answers["ReviewsService/GetReview"] = lambda asked: review(
        pending(int(asked.approval_id[-1])), preparing=asked.approval_id != "apr_2"
    )
    form = {"gate": GATE, "decision": decision, "approval_id": ["apr_1", "apr_2", "apr_3"]}
    page = html(sent(backend, **form))
    assert re.findall(r'name="approval_id" value="([^"]*)"', page) == ["apr_2"]
    assert re.findall(r"Not decided: <a href=\"/runs/(\w+)\">.*, because .* still being prepared", page) == [
        "run_1",
        "run_3",
    ]
    answer = sent(backend, **form, sure="yes")
    word = "Approved" if decision == "approve" else "Rejected"
    reason = "Not decided, because what they are about is still being prepared: run_1, run_3."
    assert answer.notice == f"{word}: 1. {reason}"
    assert [each.approval_id for each in backend.asked("RunsService/DecideApproval")] == ["apr_2"]


def test_somebody_faster_does_not_stop_the_others() -> None:
    backend = services(pending(1), pending(2), decided=Refusal("not_found"))
    answer = sent(backend, gate=GATE, decision="approve", sure="yes", approval_id=["apr_1", "apr_2"])
    assert answer.notice == "Approved: 0. No longer pending: 2."


def test_a_failure_among_several_tells_what_was_done_and_what_was_not() -> None:
    waiting = [pending(number) for number in range(1, 6)]
    backend = services(*waiting)
    answers = iter([DECIDED, Refusal("not_found"), Refusal("runtime_unreachable")])

    def answer(_: Any) -> Any:
        if isinstance(given := next(answers), Refusal):
            raise given
        return given

    backend.answers["RunsService/DecideApproval"] = answer
    told = sent(backend, gate=GATE, decision="approve", sure="yes", approval_id=[f"apr_{n}" for n in range(1, 7)])
    assert isinstance(told, Redirect)
    assert told.notice.startswith("Approved: 1. No longer pending: 2. Look at run_3, which was answered: ")
    assert told.notice.endswith(" Not decided: 2 after it.")
    assert len(backend.asked("RunsService/DecideApproval")) == 3


def test_a_refusal_of_another_field_is_no_late_decision() -> None:
    wrong = Refusal("invalid_request", details=[{"name": "comment", "reason": "must be shorter"}])
    with pytest.raises(Refusal):
        sent(services(pending(), decided=wrong), gate=GATE, decision="approve", sure="yes")


def test_more_than_a_page_are_not_decided_at_once() -> None:
    backend = services(pending())
    chosen = [f"apr_{number}" for number in range(51)]
    answer = sent(backend, gate=GATE, decision="approve", sure="yes", approval_id=chosen)
    assert answer.notice == "Nothing was changed: at most 50 are decided at once."
    assert backend.calls == []


@pytest.mark.parametrize("form", [{}, {"decision": "maybe"}, {"gate": ""}, {"comment": "x" * 2_001}])
def test_several_need_a_gate_and_a_decision(form: dict[str, str]) -> None:
    backend = services(pending())
    answer = sent(backend, **{"gate": GATE, "decision": "approve" if form else "", "sure": "yes", **form})
    assert answer.notice.startswith("Nothing was changed")
    assert not backend.asked("RunsService/DecideApproval")


def test_the_history_says_who_decided_what() -> None:
    decision = Decision(
        approval_id="apr_1", title="Look", state=APPROVAL_STATE_REJECTED, decided_by="user:ana", step="review"
    )
    made = RunDecision(decision=decision, run_id="run_1", workflow_id="wf_1", workflow_name="Digest", comment=EVIL)
    backend = services()
    backend.answers["ReviewsService/ListAllDecisions"] = ListAllDecisionsResponse(items=[made], next_page_token="c2")
    backend.answers["WorkflowsService/ListWorkflows"] = ListWorkflowsResponse()
    page = html(answered(backend, "GET", "/approvals/history", query={"cursor": "c1"}))
    assert all(text in page for text in ("<td>ana</td>", "rejected", "Digest", 'href="/approvals/history?cursor=c2"'))
    assert EVIL not in page

    chosen = {"workflow_id": "wf_1", "by": "ana", "decision": "rejected", "from": "2026-09-24", "to": "2026-09-24"}
    page = html(answered(backend, "GET", "/approvals/history", query=chosen))
    assert "decision=rejected&amp;from=2026-09-24&amp;to=2026-09-24&amp;cursor=c2" in page
    asked = backend.asked("ReviewsService/ListAllDecisions")[-1]
    assert (asked.workflow_id, asked.decided_by, asked.state) == ("wf_1", "user:ana", APPROVAL_STATE_REJECTED)
    assert asked.decided_before.seconds - asked.decided_since.seconds == 86_400

    backend.answers["ReviewsService/ListAllDecisions"] = ListAllDecisionsResponse(next_page_token="c3")
    page = html(answered(backend, "GET", "/approvals/history", query={"by": "ana"}))
    assert "No match so far" in page
    assert 'href="/approvals/history?by=ana&amp;cursor=c3">Go on' in page


def test_a_filter_of_the_history_that_is_none_is_said_at_its_field() -> None:
    backend = services()
    backend.answers["WorkflowsService/ListWorkflows"] = ListWorkflowsResponse()
    answer = answered(backend, "GET", "/approvals/history", query={"decision": "maybe", "from": "soon"})
    page = html(answer)
    assert 'id="field-decision-error">must be approved or rejected' in page
    assert 'id="field-from-error">must be a day' in page
    assert 'class="empty"' not in page
    assert not backend.asked("ReviewsService/ListAllDecisions")


def test_a_new_approval_and_what_was_prepared_refresh_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approval_inbox, "POLL_SECONDS", 0)
    backend = services(pending())
    reviews = iter([review(pending(), preparing=True), review(pending(), material=ReviewMaterial())])
    lists = iter([[pending()], [pending()], [pending(), pending(2)]])
    backend.answers["ReviewsService/GetReview"] = lambda _: next(reviews)
    backend.answers[LIST] = lambda _: ListPendingApprovalsResponse(items=next(lists))
    answer = answered(backend, "GET", "/approvals/stream", query={"at": "apr_1"})
    assert isinstance(answer, PageEvents)

    async def events() -> list[tuple[str, str]]:
        return [await anext(answer.events) for _ in range(2)]

    assert asyncio.run(events()) == [("refresh", "changed")] * 2


def test_the_first_of_an_inbox_that_was_empty_is_followed_until_it_is_prepared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(approval_inbox, "POLL_SECONDS", 0)
    backend = services(pending())
    reviews = iter([review(pending(), preparing=True), review(pending(), material=ReviewMaterial())])
    lists = iter([[], [pending()], [pending()]])
    backend.answers["ReviewsService/GetReview"] = lambda _: next(reviews)
    backend.answers[LIST] = lambda _: ListPendingApprovalsResponse(items=next(lists))
    answer = answered(backend, "GET", "/approvals/stream")
    assert isinstance(answer, PageEvents)

    async def events() -> list[tuple[str, str]]:
        return [await anext(answer.events) for _ in range(2)]

    assert asyncio.run(events()) == [("refresh", "changed")] * 2


def test_an_open_page_asks_for_the_approval_that_it_shows() -> None:
    page = inbox(services(pending(1), pending(2)))
    assert 'data-address="/approvals?at=apr_1"' in page
    assert "data-address" not in inbox(services())


@pytest.mark.parametrize("listed", [[pending(2)], [pending(1), pending(2)], []])
def test_a_decided_approval_stays_open_with_who_decided_it_and_no_other_takes_its_place(
    listed: list[PendingApproval],
) -> None:
    decided = review(pending(), state=reviews_pb2.APPROVAL_STATE_APPROVED, decided_by="user:ana")
    page = inbox(services(*listed, shown=decided), at="apr_1")
    assert all(text in page for text in ("Title 1", "Approved by ana", "This approval is not pending any more."))
    assert 'action="/approvals/apr' not in page
    assert ('href="/approvals">Open the next' in page) is bool(listed)


def test_an_approval_of_a_run_that_has_ended_is_told_to_be_gone() -> None:
    page = inbox(services(pending(2), shown=Refusal("not_found")), at="apr_1")
    assert "This approval is not pending any more" in page
    assert 'action="/approvals/apr' not in page


def test_a_pending_approval_of_another_page_of_the_list_is_shown() -> None:
    page = inbox(services(pending(2), shown=review(pending(), material=ReviewMaterial())), at="apr_1")
    assert 'action="/approvals/apr_1"' in page
    assert "Title 1" in page


def test_the_questions_name_the_run_and_its_reference() -> None:
    waiting = pending()
    waiting.client_reference = "order-7"
    page = inbox(services(waiting))
    assert 'data-about="“Title 1” of run_1 (Workflow 1, order-7)"' in page
    assert 'data-confirm="Reject “Title 1” of run_1 (Workflow 1, order-7)? ' in page
