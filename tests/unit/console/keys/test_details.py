import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from console.keys.details import key_details, state_of
from tests.unit.console.recorded_services import key_record
from workflow_api.v1.keys_pb2 import AllowedHours

MADE = 1_000_000_000_000
LATER = MADE + 3_600_000


@pytest.mark.parametrize(
    ("state", "now", "text"),
    [
        ("active", MADE + 59_999, "Not yet active"),
        ("active", MADE + 60_000, "Active"),
        ("rotating", LATER, "Rotating"),
        ("revoked", LATER, "Revoked"),
        ("revoked", MADE, "Revoked"),
        ("expired", LATER, "Expired"),
    ],
)
def test_every_state_of_a_key_has_a_name(state: str, now: int, text: str) -> None:
    record = key_record(state=state, rotating_until=Timestamp(seconds=1_000_000_000 + 86_400))
    assert state_of(record, now).text == text


def test_absent_limits_of_a_key_are_words() -> None:
    sheet = key_details(key_record(), LATER)
    assert (sheet.workflows, sheet.source_allow_list, sheet.allowed_hours, sheet.used_ms) == (
        "all active workflows",
        "any address",
        "any hour",
        None,
    )


def test_allowed_hours_are_times_of_day() -> None:
    record = key_record(allowed_hours=AllowedHours(start_hour=22, end_hour=6))
    assert key_details(record, LATER).allowed_hours == "22:00 to 06:00 UTC"
