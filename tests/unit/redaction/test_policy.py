from typing import Any

import pytest

from redaction.entity_types import ENTITY_TYPES
from redaction.policy import Policy
from redaction.redactor import Redactor


def test_a_policy_of_nothing_replaces_everything_that_is_found() -> None:
    assert Policy.of({}) == Policy.of({"mode": None, "categories": "all"}) == Policy("redact", ENTITY_TYPES)
    assert Redactor({}).text("Mail jane.roe@example.com") == "Mail [EMAIL_ADDRESS]"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"stages": []}, "stages is not a field of a policy"),
        ({"categories": ["NAME"]}, "categories must be"),
        ({"min_confidence": True}, "min_confidence must be a number from 0 to 1"),
        ({"max_model_calls": -1}, "max_model_calls must be an integer from 0 to 100,000"),
        ({"phone_regions": ["XX"]}, "phone_regions must be a list of countries"),
    ],
)
def test_what_a_policy_cannot_hold_is_refused(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Redactor(given)
