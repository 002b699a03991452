from datetime import timedelta

import pytest

from backend.common.certificate_expiry import time_left


@pytest.mark.parametrize(
    ("left", "text"),
    [
        (timedelta(days=13), "312 hours"),
        (timedelta(hours=1, minutes=59), "1 hour"),
        (timedelta(minutes=59, seconds=59), "59 minutes"),
        (timedelta(seconds=61), "1 minute"),
        (timedelta(seconds=5), "less than a minute"),
    ],
)
def test_the_last_hour_of_a_certificate_is_told_in_minutes(left: timedelta, text: str) -> None:
    assert time_left(left) == text
