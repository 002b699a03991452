"""The scanner of logs finds what it looks for."""

import base64
import json

import pytest

from tests.support.planted import leaks_in

VALUE = 'Hanna "Planted" <hanna.planted@example.örg>'


@pytest.mark.parametrize(
    "form",
    [
        VALUE,
        f"before {VALUE} behind",
        repr({"text": VALUE}),
        json.dumps(VALUE),
        json.dumps({"text": json.dumps(VALUE)}),
        repr(VALUE.encode()),
        "Hanna%20%22Planted%22%20%3Channa.planted%40example.%C3%B6rg%3E",
        *(base64.b64encode(b"x" * offset + VALUE.encode() + b"yz").decode() for offset in range(4)),
    ],
)
def test_a_value_is_found_in_every_form(form: str) -> None:
    assert len(list(leaks_in(f"a line\n{form}\n", [VALUE]))) == 1


def test_what_is_not_there_is_not_found() -> None:
    assert list(leaks_in(f"a line\n{VALUE[:-1]}\n", [VALUE])) == []
