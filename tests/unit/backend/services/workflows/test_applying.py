"""Differences between definitions, as people read them."""

from backend.services.workflows.applying import difference


def test_text_of_several_lines_is_compared_line_by_line() -> None:
    before = {"code": "def run(context):\n    return 1\n", "name": "a"}
    after = {"code": "def run(context):\n    return 2\n", "name": "a"}
    assert difference(before, after, ("old", "new")).splitlines() == [
        "--- old",
        "+++ new",
        "@@ -1,4 +1,4 @@",
        " code: |",
        "   def run(context):",
        "-      return 1",
        "+      return 2",
        " name: a",
    ]


def test_equal_definitions_have_none() -> None:
    shared = ["a"]
    assert difference({"a": shared, "b": shared}, {"a": ["a"], "b": ["a"]}, ("old", "new")) == ""


def test_what_is_too_long_to_compare_is_told_so() -> None:
    long = {"code": "x\n" * 20_000}
    assert difference(long, {**long, "name": "a"}, ("old", "new")).splitlines() == [
        "--- old",
        "+++ new",
        "(over 20,000 lines, which are not shown)",
    ]
    assert difference(long, dict(long), ("old", "new")) == ""
