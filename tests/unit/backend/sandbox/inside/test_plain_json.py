"""Values of steps are encoded as json encodes them, also if json is not imported."""

import json
import subprocess
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backend.sandbox import interpreter
from backend.sandbox.inside import plain_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=2),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner)
        | st.dictionaries(st.text() | st.integers() | st.none() | st.booleans() | st.floats(), inner)
    ),
)


class Loud(str):
    """A subclass of str with another repr."""

    __slots__ = ()

    def __str__(self) -> str:
        return "LOUD"


def _by_json(value: Any) -> bytes | type[Exception]:
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
    except (ValueError, TypeError, RecursionError) as error:
        return type(error)


def _by_us(value: Any) -> bytes | type[Exception]:
    try:
        return plain_json.encode(value)
    except (ValueError, TypeError, RecursionError) as error:
        return type(error)


@given(VALUES)
@example('quote " backslash \\ line \n nul \0 delete \x7f separator \u2028 emoji \U0001f600')
@example("half of a pair \ud800")
@example({"a": [1, True, None, -0.0, 1e300, 1e16, 0.1, ""], "": {}, "b": []})
@example({Loud("name"): Loud("value")})
@example([10**5000])
@example(float("nan"))
@example({"a": float("-inf")})
def test_every_value_is_written_as_json_writes_it(value: Any) -> None:
    assert _by_us(value) == _by_json(value)


@pytest.mark.parametrize("levels", [1, 20, 21, 1_000, 100_000])
def test_nesting_is_written_as_json_writes_it(levels: int) -> None:
    value: Any = "deep"
    for _ in range(levels):
        value = {"in": [value]}
    assert _by_us(value) == _by_json(value)


def test_a_value_that_holds_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    assert _by_us(value) is ValueError


@pytest.mark.parametrize("value", [{"words": 1}, {"share": 0.5, "done": True, "none": None, "names": ["é", ""]}])
def test_a_plain_value_imports_no_json(value: Any) -> None:
    program = f"import sys; exec(open(sys.argv[1]).read()); encode({value!r}); print('json' in sys.modules)"
    command = [str(interpreter.executable()), *interpreter.FLAGS, "-c", program, str(plain_json.__file__)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"
