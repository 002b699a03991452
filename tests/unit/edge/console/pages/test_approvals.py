from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from edge.console.pages.approvals import MAX_COMMENT_CHARS
from edge.console.visit import ALL_ROLES, Redirect, View
from edge.errors import Refusal
from tests.unit.edge.console.seen import APPROVER, MemoryServices, answered, html, roles_of
from workflow_api.v1.runs_pb2 import (
    RUN_STATUS_RUNNING,
    Approval,
    DecideApprovalRequest,
    DecideApprovalResponse,
    ListPendingApprovalsResponse,
    PendingApproval,
)

EVIL = "<script>alert(1)</script>"
ONE = "/approvals/{approval_id}"
HERE = {"approval_id": "apr_1"}
DECIDED = DecideApprovalResponse(approval_id="apr_1", run_id="run_1", status=RUN_STATUS_RUNNING)


def pending(number: int = 1, **other: Any) -> PendingApproval:
    approval = Approval(
        approval_id=f"apr_{number}",
        step="review",
        title=other.pop("title", f"Title {number}"),
        requested_at=Timestamp(seconds=1_790_000_000),
        **other,
    )
    return PendingApproval(approval=approval, run_id=f"run_{number}", workflow_name=f"Workflow {number}")


def services(*waiting: PendingApproval, decided: Any = DECIDED) -> MemoryServices:
    return MemoryServices(
        {
            "RunsService/ListPendingApprovals": ListPendingApprovalsResponse(items=waiting),
            "RunsService/DecideApproval": decided,
        }
    )


def decisions(backend: MemoryServices) -> list[Any]:
    return backend.asked("RunsService/DecideApproval")


def test_pending_approvals_are_listed_in_the_order_of_the_service() -> None:
    page = html(answered(services(pending(2), pending(1)), "GET", "/approvals", user=APPROVER), APPROVER)
    assert page.index("Title 2") < page.index("Title 1")
    assert 'href="/approvals/apr_2"' in page
    assert 'href="/runs/run_2"' in page


def test_an_empty_list_of_approvals_is_a_sentence() -> None:
    assert "No approval is pending" in html(answered(services(), "GET", "/approvals"))


@pytest.mark.parametrize("path", ["/approvals", ONE])
def test_values_of_an_approval_are_escaped(path: str) -> None:
    evil = pending(title=EVIL, instructions=f"{EVIL}\nsecond line")
    evil.workflow_name = EVIL
    page = html(answered(services(evil), "GET", path, HERE))
    assert "alert(1)" in page
    assert EVIL not in page


def test_both_roles_decide() -> None:
    assert roles_of("POST", ONE) == ALL_ROLES


@pytest.mark.parametrize(("decision", "approve"), [("approve", True), ("reject", False)])
@pytest.mark.parametrize("comment", ["", "Plausible\nenough"])
def test_a_decision_calls_the_service_and_redirects_to_the_run(decision: str, approve: bool, comment: str) -> None:
    backend = services(pending())
    answer = answered(backend, "POST", ONE, HERE, form={"decision": decision, "comment": comment})
    assert isinstance(answer, Redirect)
    assert answer.to == "/runs/run_1"
    assert decisions(backend) == [DecideApprovalRequest(approval_id="apr_1", approve=approve, comment=comment or None)]


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
@pytest.mark.parametrize(("form", "to"), [({}, "/approvals"), ({"run_id": "run_1"}, "/runs/run_1")])
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
