"""Tests of what is left out of a log before it is swept."""

from time import perf_counter

import pytest

from backend.runtime.execution.step_log import without_cut_lines

CUT = "\n[7 bytes of the log are cut here]\n"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("one\ntwo", "one\ntwo"),
        (f"one\nhal{CUT}alf\ntwo", f"one\n{CUT}\ntwo"),
        (f"hal{CUT}alf", CUT),
        (f"{CUT}alf\n", f"{CUT}\n"),
        (f"one{CUT}two{CUT}three", f"{CUT}{CUT}"),
        (f"one{CUT}two\nthree{CUT}four\nfive", f"{CUT}\n{CUT}\nfive"),
    ],
)
def test_the_lines_that_a_cut_goes_through_are_left_out(text: str, kept: str) -> None:
    assert without_cut_lines(text) == kept


@pytest.mark.parametrize(
    "text", ["x" * 1_000_000, f"{'x' * 500_000}{CUT}{'x' * 500_000}", "\n[1" * 300_000, CUT * 30_000]
)
def test_a_log_of_one_long_line_holds_the_engine_up_no_longer_than_another(text: str) -> None:
    began = perf_counter()
    without_cut_lines(text)
    assert perf_counter() - began < 2
