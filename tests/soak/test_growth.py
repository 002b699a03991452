from tests.soak.growth import Bound, judge

TIMES = [float(second) for second in range(100)]
BOUNDS = {"open files": Bound(5, 0.1, {}), "rows of runs": Bound(5, 0, {"runs started": 1})}


def unexplained(name: str, values: list[float], started: int = 0) -> bool:
    samples = [{name: value, "runs started": started * number} for number, value in enumerate(values)]
    (growth,) = judge(TIMES, samples, BOUNDS)
    return growth.unexplained


def test_what_grows_steadily_is_found() -> None:
    assert unexplained("edge: open files", [20 + second / 4 for second in TIMES])


def test_what_grows_only_at_first_and_what_peaks_is_not_found() -> None:
    assert not unexplained("edge: open files", [min(second, 40) for second in TIMES])
    assert not unexplained("edge: open files", [400 if second % 9 == 0 else 20 for second in TIMES])


def test_rows_that_runs_leave_are_explained_but_no_more() -> None:
    assert not unexplained("rows of runs", [second * 3 for second in TIMES], started=3)
    assert unexplained("rows of runs", [second * 4 for second in TIMES], started=3)
