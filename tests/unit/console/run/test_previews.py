import json

import pytest

from console.run.previews import MOST_NODES, JsonNode, tree_of


def size(node: JsonNode) -> int:
    return 1 + sum(map(size, node.children))


def test_values_keep_their_spelling_and_order() -> None:
    tree = tree_of('{"b": 1e400, "a": [12345678901234567890, "é", null, true], "c": {}}')
    assert tree is not None
    assert (tree.text, tree.open) == ("3 members", True)
    assert [(each.name, each.text) for each in tree.children] == [("b", "1e400"), ("a", "4 items"), ("c", "0 members")]
    assert [each.text for each in tree.children[1].children] == ["12345678901234567890", '"é"', "null", "true"]


def test_a_large_or_deep_value_is_bounded_and_says_what_is_left_out() -> None:
    tree = tree_of(json.dumps({"x": list(range(5_000))}))
    assert tree is not None
    assert size(tree) == MOST_NODES
    assert tree.children[0].left_out == 5_000 - (MOST_NODES - 2)
    deep = tree_of("[" * 50 + "1" + "]" * 50)
    assert deep is not None
    assert size(deep) == 13


@pytest.mark.parametrize("text", ["", "1", '"text"', "{", "[" * 100_000])
def test_what_is_no_tree_is_none(text: str) -> None:
    assert tree_of(text) is None
