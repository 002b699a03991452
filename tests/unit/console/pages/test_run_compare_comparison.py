import json

import pytest

from console.pages.run_compare import differences


def test_values_that_differ_are_named_by_their_paths() -> None:
    found = differences('{"a": {"b": [1, 2]}, "c": "x", "e": {}}', '{"a": {"b": [1, 3, 4]}, "d": null, "e": {}}')
    assert [tuple(each) for each in found.shown] == [
        ("a.b[1]", "2", "3"),
        ("c", '"x"', ""),
        ("a.b[2]", "", "4"),
        ("d", "", "null"),
    ]
    assert (found.total, found.equal, found.cut) == (4, 2, False)


@pytest.mark.parametrize(("left", "right", "total"), [("", "", 0), ("1", "1", 0), ("1", "2", 1), ("", "{}", 1)])
def test_plain_and_absent_values_are_compared(left: str, right: str, total: int) -> None:
    assert differences(left, right).total == total


def test_large_and_deep_values_are_bounded() -> None:
    found = differences(json.dumps(list(range(30_000))), json.dumps([0] * 30_000))
    assert (len(found.shown), found.total, found.cut) == (100, 19_999, True)
    assert differences("[" * 90 + "1" + "]" * 90, "[" * 90 + "2" + "]" * 90).total == 1
