import asyncio
import re
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from console.pages.approvals import MAX_COMMENT_CHARS
from console.visit import DECIDERS, PageEvents, Redirect, View
from contract.refusals import Refusal
from tests.unit.console.seen import APPROVER, UNSEEN, MemoryServices, answered, html, roles_of
from workflow_api.v1 import reviews_pb2
from workflow_api.v1.reviews_pb2 import (
    GetReviewRequest,
    Review,
    ReviewFile,
    ReviewMaterial,
    ReviewRow,
    ReviewStep,
    ReviewTable,
    ReviewText,
)
from workflow_api.v1.runs_pb2 import (
    RUN_STATUS_RUNNING,
    Approval,
    DecideApprovalRequest,
    DecideApprovalResponse,
    ListPendingApprovalsResponse,
    PendingApproval,
)

EVIL = f"<script>alert(1)</script>{UNSEEN}"
ONE = "/approvals/{approval_id}"
HERE = {"approval_id": "apr_1"}
LIVE = re.compile(r'id="([a-z]+)" data-live')
DECIDED = DecideApprovalResponse(approval_id="apr_1", run_id="run_1", status=RUN_STATUS_RUNNING)


def pending(number: int = 1, **other: Any) -> PendingApproval:
    approval = Approval(
        approval_id=f"apr_{number}",
        step="review",
        title=other.pop("title", f"Title {number}"),
        requested_at=Timestamp(seconds=1_790_000_000),
        **other,
    )
    return PendingApproval(
        approval=approval, run_id=f"run_{number}", workflow_id="wf_1", workflow_name=f"Workflow {number}"
    )


def review(waiting: PendingApproval, **fields: Any) -> Review:
    return Review(**{"pending": waiting, "state": reviews_pb2.APPROVAL_STATE_PENDING, **fields})


def services(*waiting: PendingApproval, decided: Any = DECIDED, shown: Any = None) -> MemoryServices:
    by_id = {each.approval.approval_id: each for each in waiting}

    def known(request: GetReviewRequest) -> Review:
        if request.approval_id not in by_id:
            raise Refusal("not_found")
        return review(by_id[request.approval_id], material=ReviewMaterial())

    return MemoryServices(
        {
            "RunsService/ListPendingApprovals": ListPendingApprovalsResponse(items=waiting),
            "ReviewsService/CountPendingApprovals": reviews_pb2.CountPendingApprovalsResponse(total=len(waiting)),
            "ReviewsService/GetReview": shown or known,
            "RunsService/DecideApproval": decided,
        }
    )


def decisions(backend: MemoryServices) -> list[Any]:
    return backend.asked("RunsService/DecideApproval")


def test_an_approval_shows_values_files_and_inputs_escaped() -> None:
    table = ReviewTable(columns=[EVIL], rows=[ReviewRow(cells=["<b>1"])], cut=True)
    files = [
        ReviewFile(path="count/t.csv", media_type="text/csv", size_bytes=2_000, table=table),
        ReviewFile(path="count/n.md", media_type="text/markdown", text=ReviewText(text=f"notes {EVIL}")),
        ReviewFile(path="count/c.png", media_type="image/png", problem="It is neither text nor a table."),
    ]
    step = ReviewStep(step="count", value=ReviewText(text='{"words":3}'), files=files, files_total=5)
    given = ReviewMaterial(
        parameters=ReviewText(text='{"language":"en"}'), input_text=ReviewText(text="Once"), steps=[step], redacted=True
    )
    page = html(answered(services(shown=review(pending(), material=given)), "GET", ONE, HERE, user=APPROVER), APPROVER)
    for text in (
        "&#34;words&#34;: 3",
        "&lt;b&gt;1",
        "2 kB",
        "notes &lt;script",
        "neither text nor",
        "Once",
        "language",
    ):
        assert text in page, text
    assert "2 more files are not shown" in page
    assert "The rest is not shown" in page
    assert "Personal data is replaced" in page
    assert EVIL not in page


def test_what_could_not_be_swept_is_not_shown_and_can_be_decided() -> None:
    failed = review(pending(), problem="It could not be swept for personal data, so nothing of it is shown: why.")
    page = html(answered(services(shown=failed), "GET", ONE, HERE))
    assert "could not be swept" in page
    assert 'value="approve"' in page


def test_an_approval_that_is_being_prepared_is_followed_until_it_is_ready() -> None:
    answers = [review(pending(), preparing=True), review(pending(), material=ReviewMaterial())]
    backend = services(shown=review(pending(), preparing=True))
    assert 'data-stream="/approvals/apr_1/stream?preparing=yes"' in html(answered(backend, "GET", ONE, HERE))
    backend.answers["ReviewsService/GetReview"] = lambda _: answers.pop(0)
    stream = answered(backend, "GET", f"{ONE}/stream", HERE, query={"preparing": "yes"})
    assert isinstance(stream, PageEvents)

    async def first() -> tuple[str, str]:
        return await anext(stream.events)

    assert asyncio.run(first()) == ("refresh", "prepared")
    assert answers == []


def test_an_open_approval_is_followed_until_somebody_else_settles_it() -> None:
    backend = services(pending())
    assert 'data-stream="/approvals/apr_1/stream"' in html(answered(backend, "GET", ONE, HERE))
    listed = [ListPendingApprovalsResponse(items=[pending(1)]), ListPendingApprovalsResponse(items=[pending(2)])]
    backend.answers["RunsService/ListPendingApprovals"] = lambda _: listed.pop(0)
    stream = answered(backend, "GET", f"{ONE}/stream", HERE)
    assert isinstance(stream, PageEvents)

    async def every() -> list[tuple[str, str]]:
        return [event async for event in stream.events]

    assert asyncio.run(every()) == [("refresh", "settled")]
    assert listed == []
    assert {asked.run_id for asked in backend.asked("RunsService/ListPendingApprovals")} == {"run_1"}


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (reviews_pb2.APPROVAL_STATE_APPROVED, "Approved by kim"),
        (reviews_pb2.APPROVAL_STATE_WITHDRAWN, "Its run ended before anybody decided."),
        (reviews_pb2.APPROVAL_STATE_EXPIRED, "Its deadline passed without a decision."),
    ],
)
def test_every_live_part_of_an_open_approval_is_there_once_it_is_settled(state: Any, text: str) -> None:
    waits = html(answered(services(pending()), "GET", ONE, HERE))
    decided_by = "user:kim" if state == reviews_pb2.APPROVAL_STATE_APPROVED else None
    settled = review(pending(), state=state, decided_by=decided_by, decided_at=Timestamp(seconds=1_790_000_000))
    page = html(answered(services(shown=settled), "GET", ONE, HERE))
    assert LIVE.findall(waits) == LIVE.findall(page) == ["standing", "facts", "material", "deciding"]
    assert text in page
    assert "data-stream" not in page
    assert "<button" not in page.partition("<h1")[2]


def test_a_decided_approval_names_who_decided_and_has_no_form() -> None:
    decided = review(
        pending(),
        state=reviews_pb2.APPROVAL_STATE_REJECTED,
        decided_by="user:ada",
        decided_at=Timestamp(seconds=1_790_000_000),
    )
    page = html(answered(services(shown=decided), "GET", ONE, HERE))
    assert "Rejected by ada" in page
    assert 'value="approve"' not in page


@pytest.mark.parametrize("path", ["/approvals", ONE])
def test_values_of_an_approval_are_escaped(path: str) -> None:
    evil = pending(title=EVIL, instructions=f"{EVIL}\nsecond line")
    evil.workflow_name = EVIL
    page = html(answered(services(evil), "GET", path, HERE))
    assert "alert(1)" in page
    assert EVIL not in page


def test_only_those_who_decide_are_shown_what_they_decide() -> None:
    assert roles_of("POST", ONE) == DECIDERS


@pytest.mark.parametrize(("decision", "approve"), [("approve", True), ("reject", False)])
@pytest.mark.parametrize("comment", ["", "Plausible\nenough"])
def test_a_decision_calls_the_service_and_redirects_to_the_run(decision: str, approve: bool, comment: str) -> None:
    backend = services(pending())
    answer = answered(backend, "POST", ONE, HERE, form={"decision": decision, "comment": comment})
    assert isinstance(answer, Redirect)
    assert answer.to == "/runs/run_1"
    assert decisions(backend) == [DecideApprovalRequest(approval_id="apr_1", approve=approve, comment=comment or None)]


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_nothing_is_decided_before_the_material_is_shown(decision: str) -> None:
    backend = services(shown=review(pending(), preparing=True))
    answer = answered(backend, "POST", ONE, HERE, form={"decision": decision, "comment": "Because"})
    assert isinstance(answer, View)
    assert answer.status == 400
    page = html(answer)
    assert "Nothing was decided: what this is about is still being prepared." in page
    assert "Because</textarea>" in page
    assert not decisions(backend)


def test_a_decision_is_taken_where_the_preparation_failed() -> None:
    backend = services(shown=review(pending(), problem="What it is about could not be read."))
    assert isinstance(answered(backend, "POST", ONE, HERE, form={"decision": "reject", "comment": ""}), Redirect)
    assert len(decisions(backend)) == 1


@pytest.mark.parametrize("decision", ["", "Approve", "maybe"])
def test_an_invalid_decision_decides_nothing_and_keeps_the_comment(decision: str) -> None:
    backend = services(pending())
    answer = answered(backend, "POST", ONE, HERE, form={"decision": decision, "comment": "Because"})
    assert isinstance(answer, View)
    assert answer.status == 400
    assert "Because</textarea>" in html(answer)
    assert not decisions(backend)


def test_a_comment_may_be_as_long_as_the_service_allows_and_no_longer() -> None:
    backend = services(pending())
    answered(backend, "POST", ONE, HERE, form={"decision": "approve", "comment": "x" * MAX_COMMENT_CHARS})
    assert len(decisions(backend)) == 1

    answer = answered(
        backend, "POST", ONE, HERE, form={"decision": "approve", "comment": "x" * (MAX_COMMENT_CHARS + 1)}
    )
    assert isinstance(answer, View)
    assert answer.status == 400
    assert "at most 2,000" in html(answer)
    assert len(decisions(backend)) == 1


LATE = Refusal("invalid_request", details=[{"name": "approval_id", "reason": "must wait; this one is approved"}])


@pytest.mark.parametrize("refusal", [LATE, Refusal("not_found")])
@pytest.mark.parametrize(("form", "to"), [({}, "/approvals/apr_1"), ({"run_id": "run_1"}, "/runs/run_1")])
def test_a_late_decision_is_a_notice_and_no_error(refusal: Refusal, form: dict[str, str], to: str) -> None:
    answer = answered(services(decided=refusal), "POST", ONE, HERE, form={"decision": "approve", **form})
    assert isinstance(answer, Redirect)
    assert answer.to == to
    assert answer.notice.startswith("Nothing was changed")


def test_the_redirect_stays_on_the_console() -> None:
    form = {"decision": "approve", "run_id": "//elsewhere.example/../"}
    answer = answered(services(decided=LATE), "POST", ONE, HERE, form=form)
    assert isinstance(answer, Redirect)
    assert answer.to == "/runs/%2F%2Felsewhere.example%2F..%2F"


def test_another_refusal_is_passed_on() -> None:
    other = Refusal("invalid_request", details=[{"name": "comment", "reason": "must be text"}])
    with pytest.raises(Refusal, match="invalid_request"):
        answered(services(decided=other), "POST", ONE, HERE, form={"decision": "approve"})


def test_an_approval_that_is_not_pending_is_reported() -> None:
    answer = answered(services(pending(2)), "GET", ONE, HERE)
    assert isinstance(answer, View)
    assert answer.status == 404
    assert "is not pending" in html(answer)


def test_the_list_and_the_page_of_an_approval_name_who_started_its_run() -> None:
    waiting = pending()
    waiting.started_by = "ana"
    for path in ("/approvals", ONE):
        assert "ana" in html(answered(services(waiting), "GET", path, HERE))
