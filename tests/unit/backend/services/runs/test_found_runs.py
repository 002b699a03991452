from backend.services.runs.found_runs import waits


def test_waits_that_overlap_count_once() -> None:
    assert waits([]) == (0, None)
    assert waits([(0, 10), (5, 20), (30, 40)]) == (30, None)


def test_what_lasts_counts_by_its_beginning_alone() -> None:
    assert waits([(0, 10), (20, 30), (25, None), (28, None)]) == (15, 25)
