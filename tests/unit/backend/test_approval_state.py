from backend.approval_state import DECIDED, TRANSITIONS, ApprovalState


def test_every_state_has_its_transitions() -> None:
    assert set(TRANSITIONS) == set(ApprovalState)


def test_only_a_pending_approval_can_be_decided_or_withdrawn() -> None:
    assert {state for state, after in TRANSITIONS.items() if after} == {ApprovalState.PENDING}
    assert set(TRANSITIONS[ApprovalState.PENDING]) == {*DECIDED, ApprovalState.WITHDRAWN}
