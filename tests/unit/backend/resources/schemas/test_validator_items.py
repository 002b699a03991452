"""The items of a fan-out, listed in a confined process."""

import json
from collections.abc import Iterator

import pytest

from backend.resources.schemas.expression_scope import ExpressionError, Scope, Values
from backend.resources.schemas.validator import SchemaValidator


@pytest.fixture(name="validator", scope="module")
def _validator() -> Iterator[SchemaValidator]:
    validator = SchemaValidator()
    yield validator
    validator.close()


def items(
    validator: SchemaValidator, source: str, need: object, *, most: int = 1_000, most_bytes: int = 1_000
) -> list[str]:
    scope = Scope(parameters={}, nullable=[], needs=["list"], item=False)
    values = Values(parameters={}, needs={}, run={}, item=None, item_index=0)
    needs = {"list": json.dumps(need)}
    return validator.items(source, scope, values, needs, most=most, most_bytes=most_bytes, owner="key")


def test_items_are_json_texts_in_the_order_of_the_list(validator: SchemaValidator) -> None:
    given = [1, "é", {"b": [None, 1.5], "a": True}]
    assert [json.loads(text) for text in items(validator, "needs.list", given)] == given
    assert items(validator, "needs.list.filter(x, x > 1)", [1, 2, 3]) == ["2", "3"]
    assert items(validator, "needs.list", []) == []


@pytest.mark.parametrize(
    ("source", "need", "message"),
    [
        ("needs.list", {"a": 1}, "The expression `needs.list` gave an object where a list is expected"),
        ("needs.list", [1, 2, 3, 4], "The expression `needs.list` gave 4 items, more than max_items of 3"),
        ("needs.list", ["x" * 60], "The expression `needs.list` gave items of more than 50 bytes of JSON"),
        ("needs.list[9]", [1], "The expression `needs.list[9]` failed: "),
    ],
)
def test_what_gives_no_such_list_is_refused(
    validator: SchemaValidator, source: str, need: object, message: str
) -> None:
    with pytest.raises(ExpressionError) as refused:
        items(validator, source, need, most=3, most_bytes=50)
    assert str(refused.value).startswith(message)


def test_a_list_that_grows_beyond_all_bounds_ends_its_process_alone(validator: SchemaValidator) -> None:
    with pytest.raises(ExpressionError):
        items(validator, "needs.list.map(x, needs.list)", ["y" * 100] * 3_000, most_bytes=2**23)
    assert items(validator, "needs.list", [1]) == ["1"]
