import datetime as dt

import pytest

from deploy.cli.output.terminal import duration_text, relative_time

NOW = dt.datetime(2026, 9, 24, 10, 0, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("at", "text"),
    [
        ("2026-09-24T10:00:00.500+00:00", "now"),
        ("2026-09-24T09:59:30.000+00:00", "30 s ago"),
        ("2026-09-24T09:15:00.000+00:00", "45 min ago"),
        ("2026-09-24T12:00:00.000+02:00", "now"),
        ("2026-09-23T10:00:00.000+00:00", "24 h ago"),
        ("2026-12-23T10:00:00.000+00:00", "in 90 days"),
        ("2020-01-02T10:00:00.000+00:00", "2020-01-02"),
        ("yesterday", "yesterday"),
    ],
)
def test_a_time_is_told_from_now(at: str, text: str) -> None:
    assert relative_time(at, NOW) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_240, "1.2 s"),
        (59_000, "59 s"),
        (125_000, "2 min 5 s"),
        (11_400_000, "3 h 10 min"),
    ],
)
def test_a_duration_is_told_in_words(milliseconds: int, text: str) -> None:
    assert duration_text(milliseconds) == text
