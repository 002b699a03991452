from backend.entity_tags import entity_tag, matches


def test_equal_rows_have_one_tag_and_others_another() -> None:
    rows = [("a", 1, None), ("a", 1, ""), ("a", 1, "None"), ("a", True, None), ("a1", None, None)]
    assert len({entity_tag(row) for row in rows}) == len(rows)
    assert entity_tag(("a", 1, None)) == entity_tag(["a", 1, None])


def test_a_star_matches_every_tag() -> None:
    assert matches("abc", ["*"])
    assert matches("abc", ["x", "abc"])
    assert not matches("abc", ["ab"])
    assert not matches("abc", [])
