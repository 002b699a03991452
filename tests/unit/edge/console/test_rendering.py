from datetime import UTC, datetime
from typing import Any

import jinja2
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from edge.console.rendering import Rendering, number, time_of
from edge.console.static_files import StaticFiles

SHOWN = '<time datetime="2026-09-24T10:15:30.123Z">2026-09-24 10:15:30 UTC</time>'


@pytest.mark.parametrize(
    "time",
    [
        1_790_244_930_123,
        Timestamp(seconds=1_790_244_930, nanos=123_000_000),
        datetime(2026, 9, 24, 10, 15, 30, 123_000, UTC),
    ],
)
def test_a_time_has_text_and_a_datetime_attribute(time: Any) -> None:
    assert time_of(time) == SHOWN


@pytest.mark.parametrize("never", [None, 0, Timestamp()])
def test_a_missing_value_is_a_dash(never: Any) -> None:
    assert time_of(never) == "\N{EN DASH}"


def test_a_number_has_thousands_separators() -> None:
    assert [number(value) for value in (1234567, 0, 1234.5, 2.0)] == ["1,234,567", "0", "1,234.5", "2"]


def test_an_undefined_name_raises() -> None:
    with pytest.raises(jinja2.UndefinedError):
        Rendering(StaticFiles()).page("sign_in.html", {})
