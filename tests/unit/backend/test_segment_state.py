from backend.segment_state import TRANSITIONS, SegmentState


def test_every_state_has_its_transitions() -> None:
    assert set(TRANSITIONS) == set(SegmentState)


def test_a_segment_never_leaves_its_end_and_never_goes_back() -> None:
    assert TRANSITIONS[SegmentState.ENDED] == ()
    assert SegmentState.QUEUED not in {after for moves in TRANSITIONS.values() for after in moves}
