"""Pages of approvals with a deadline, approvers, a form or a call."""

import json
from typing import Any, Final

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from console.visit import Redirect, View
from contract.refusals import Refusal
from tests.unit.console.pages.test_approval_inbox import GATE, LIST, inbox, sent
from tests.unit.console.pages.test_approvals import DECIDED, HERE, ONE, decisions, pending, services
from tests.unit.console.seen import APPROVER, MemoryServices, answered, html
from workflow_api.v1.runs_pb2 import (
    DEADLINE_ACTION_FAIL,
    DEADLINE_ACTION_REJECT,
    Approvers,
    ConfirmedCall,
    DecideApprovalRequest,
    PendingApproval,
)

SCHEMA: Final = json.dumps(
    {
        "type": "object",
        "properties": {
            "note": {"type": "string", "maxLength": 20},
            "amount": {"type": "integer", "minimum": 1},
            "paid": {"type": "boolean"},
        },
        "required": ["amount"],
    }
)
CALL: Final = ConfirmedCall(tool="refund", arguments='{"note":"<b>5</b>"}')
FIELDS: Final = {"form.note": "for Ann", "form.amount": "3", "form.paid": ""}


def bounded(number: int = 1, *, hours: float = 3, waited: int = 3_600, **fields: Any) -> PendingApproval:
    """An approval that is due so many hours after its request, and has waited so many seconds."""
    waiting = pending(number)
    waiting.waiting.CopyFrom(Duration(seconds=waited))
    waiting.deadline_at.CopyFrom(Timestamp(seconds=1_790_000_000 + int(hours * 3_600)))
    waiting.MergeFrom(PendingApproval(**{"on_deadline": DEADLINE_ACTION_REJECT, **fields}))
    return waiting


def filled(**fields: Any) -> PendingApproval:
    waiting = pending()
    waiting.MergeFrom(PendingApproval(form_schema=SCHEMA, **fields))
    return waiting


def page_of(waiting: PendingApproval) -> str:
    return html(answered(services(waiting), "GET", ONE, HERE, user=APPROVER), APPROVER)


def decide(backend: MemoryServices, **form: str) -> Any:
    return answered(backend, "POST", ONE, HERE, form={"run_id": "run_1", **form}, user=APPROVER)


@pytest.mark.parametrize(
    ("hours", "action", "texts"),
    [
        (100, DEADLINE_ACTION_REJECT, ['<span class="badge">due in 4 d 3 h</span>', "it is rejected"]),
        (3, DEADLINE_ACTION_FAIL, ['<span class="badge warn">due in 2 h 0 min</span>', "the run fails"]),
        (1.5, DEADLINE_ACTION_REJECT, ['<span class="badge bad">due in 30 min 0 s</span>']),
        (0.5, DEADLINE_ACTION_REJECT, ['<span class="badge bad">expires now</span>']),
    ],
)
def test_the_deadline_is_shown_and_marked_by_how_near_it_is(hours: float, action: Any, texts: list[str]) -> None:
    for page in (page_of(bounded(hours=hours, on_deadline=action)), inbox(services(bounded(hours=hours)))):
        assert texts[0] in page
    assert all(text in page_of(bounded(hours=hours, on_deadline=action)) for text in texts)


def test_the_inbox_asks_for_the_nearest_deadline_first_and_marks_reminders() -> None:
    backend = services(bounded(reminded_at=Timestamp(seconds=1_790_003_000)), pending(2))
    page = inbox(backend)
    assert all(asked.by_deadline for asked in backend.asked(LIST))
    assert page.count("data-reminded") == 1
    assert '<span class="badge warn">reminded</span>' in page


def test_who_is_no_approver_sees_who_decides_and_has_no_button() -> None:
    waiting = pending()
    waiting.approvers.CopyFrom(Approvers(roles=["approver"], people=["kim"]))
    for page in (page_of(waiting), inbox(services(waiting))):
        assert "It is decided by: everybody with the role approver, kim." in page
        assert "disabled" not in page
    waiting.excluded = True
    for page in (page_of(waiting), inbox(services(waiting))):
        assert "You cannot decide this one." in page
        assert '<button name="decision" value="approve" disabled>' in page
        assert '<button class="danger" name="decision" value="reject" formnovalidate disabled' in page


def test_a_form_has_a_labelled_field_for_each_value_without_script() -> None:
    for page in (page_of(filled()), inbox(services(filled()))):
        assert '<label for="field-form.note">note</label>' in page
        assert 'name="form.note" type="text" value="" autocomplete="off" maxlength="20"' in page
        assert 'name="form.amount" type="text" value="" autocomplete="off" required' in page
        assert '<select id="field-form.paid" name="form.paid"' in page
        assert "formnovalidate" in page, "a rejection needs no values"


def test_values_are_sent_by_their_types_with_an_approval() -> None:
    backend = services(filled(), decided=DECIDED)
    assert isinstance(decide(backend, decision="approve", comment="fine", **FIELDS), Redirect)
    values = '{"note": "for Ann", "amount": 3}'
    expected = DecideApprovalRequest(approval_id="apr_1", approve=True, comment="fine", form=values)
    assert decisions(backend) == [expected]


def test_a_rejection_sends_no_values() -> None:
    backend = services(filled(), decided=DECIDED)
    assert isinstance(decide(backend, decision="reject", comment="", **FIELDS), Redirect)
    assert decisions(backend) == [DecideApprovalRequest(approval_id="apr_1", approve=False)]


def test_values_that_do_not_fit_are_shown_again_with_their_problem() -> None:
    problem = "must fit the schema: 0 is less than the minimum of 1"
    refusal = Refusal("invalid_request", details=[{"name": "form.amount", "reason": problem}])
    view = decide(
        services(filled(), decided=refusal), decision="approve", comment="fine", **{**FIELDS, "form.amount": "0"}
    )
    assert isinstance(view, View)
    assert view.status == 400
    page = html(view, APPROVER)
    assert problem in page
    assert 'name="form.amount" type="text" value="0"' in page
    assert 'value="for Ann"' in page
    assert "fine</textarea>" in page


def test_a_person_who_may_not_decide_is_told_so() -> None:
    refusal = Refusal("forbidden", "Only these may decide this approval: kim.")
    with pytest.raises(Refusal) as raised:
        decide(services(pending(), decided=refusal), decision="approve", comment="")
    assert raised.value.message == "Only these may decide this approval: kim."


@pytest.mark.parametrize(
    ("waiting", "decision", "refused"),
    [
        (filled(), "approve", True),
        (filled(), "reject", False),
        (pending(), "approve", False),
        pytest.param(bounded(tool_call=CALL), "approve", True, id="call"),
    ],
)
def test_approvals_with_a_form_or_a_call_are_not_approved_together(
    waiting: PendingApproval, decision: str, *, refused: bool
) -> None:
    backend = services(waiting, decided=DECIDED)
    answer = sent(backend, gate=GATE, decision=decision, comment="", sure="yes", approval_id=["apr_1"])
    assert ("on its own page" in answer.notice) == refused
    assert (not decisions(backend)) == refused


def test_the_call_of_a_tool_is_shown_with_its_arguments_as_text() -> None:
    called = bounded(tool_call=CALL)
    for page in (page_of(called), inbox(services(called))):
        assert "<code>refund</code> with exactly these arguments" in page
        assert "&lt;b&gt;5&lt;/b&gt;" in page
        assert "<b>5</b>" not in page
        assert "The call is not made, and the model is told so." in page
        assert "The run fails" not in page
