import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.codec.json_body import write_json

steady = settings(deadline=None, derandomize=True)
values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
)


@steady
@given(values)
def test_written_json_reads_as_the_same_value(value: Any) -> None:
    assert json.loads(write_json(value)) == value


@pytest.mark.parametrize("number", [2**63, 2**64, -(10**30), 10**308])
def test_integers_keep_all_digits(number: int) -> None:
    assert write_json({"a": [number]}) == f'{{"a":[{number}]}}'


@pytest.mark.parametrize("number", [1.0, 0.1, 5e-324, 1e22])
def test_floats_stay_floats(number: float) -> None:
    found = json.loads(write_json(number))
    assert type(found) is float
    assert found == number


def test_nesting_of_1000_is_written() -> None:
    value: Any = 2**70
    for _ in range(1000):
        value = [value]
    assert write_json(value) == "[" * 1000 + str(2**70) + "]" * 1000
