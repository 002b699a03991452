"""Values of steps are encoded as json encodes them, also if json is not imported."""

import json
import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backend.isolation.sandbox import interpreter
from backend.isolation.sandbox.inside import plain_json

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
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        json.loads(text, object_pairs_hook=_single)
        return text.encode()
    except (ValueError, TypeError, RecursionError) as error:
        return type(error)


def _single(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("two members of one name")
    return members


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


def _deep(value: Any) -> Any:
    return {"in": [0, ('quote "', value)]}


@pytest.mark.parametrize(
    ("mapping", "first", "second", "name"),
    [
        ({1: "a", "1": "b"}, "1", "'1'", "'1'"),
        ({"true": "a", True: "b"}, "'true'", "True", "'true'"),
        ({None: "a", "x": 1, "null": "b"}, "None", "'null'", "'null'"),
        ({1.5: "a", "1.5": "b"}, "1.5", "'1.5'", "'1.5'"),
    ],
)
@pytest.mark.parametrize("place", [pytest.param(lambda one: one, id="outermost"), pytest.param(_deep, id="deep")])
def test_a_mapping_with_two_keys_that_json_writes_alike_is_refused_by_name(
    mapping: dict[Any, Any], first: str, second: str, name: str, place: Callable[[Any], Any]
) -> None:
    with pytest.raises(ValueError, match=re.escape(f"the keys {first} and {second} of a mapping")) as refused:
        plain_json.encode(place(mapping))
    assert str(refused.value).endswith(f"are both written as {name}")


def test_keys_of_different_mappings_may_be_written_alike() -> None:
    assert plain_json.encode([{1: {"1": 2}}, {"1": 3}, {True: 1, 2: 2, None: 3, 0.5: 4}]) == (
        b'[{"1":{"1":2}},{"1":3},{"true":1,"2":2,"null":3,"0.5":4}]'
    )


@pytest.mark.parametrize("value", [{"words": 1}, {"share": 0.5, "done": True, "none": None, "names": ["é", ""]}])
def test_a_plain_value_imports_no_json(value: Any) -> None:
    program = f"import sys; exec(open(sys.argv[1]).read()); encode({value!r}); print('json' in sys.modules)"
    command = [str(interpreter.executable()), *interpreter.FLAGS, "-c", program, str(plain_json.__file__)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"
