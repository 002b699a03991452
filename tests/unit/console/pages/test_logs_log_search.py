from console.pages.logs import matching_lines


def test_lines_are_found_in_whatever_case_and_marked() -> None:
    found = matching_lines("one\nTwo two\nthree.\n", "TWO")
    assert found.total == 1
    assert [(line.number, list(line.parts)) for line in found.lines] == [(2, ["", "Two", " ", "two", ""])]


def test_what_is_sought_is_no_pattern() -> None:
    assert [line.number for line in matching_lines("abc\na.c", "a.c").lines] == [2]


def test_long_lines_are_cut_around_the_match_and_many_are_counted() -> None:
    found = matching_lines("\n".join(["x" * 10_000 + "here" + "y" * 10_000] * 1_000), "here")
    assert found.total == 1_000
    assert len(found.lines) == 250
    assert all(len("".join(line.parts)) == 300 and "here" in line.parts for line in found.lines)
