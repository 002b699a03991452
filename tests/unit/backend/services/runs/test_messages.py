from backend.services.runs.messages import entity_tag


def test_equal_rows_have_one_tag_and_others_another() -> None:
    rows = [("a", 1, None), ("a", 1, ""), ("a", 1, "None"), ("a", True, None), ("a1", None, None)]
    assert len({entity_tag(row) for row in rows}) == len(rows)
    assert entity_tag(("a", 1, None)) == entity_tag(["a", 1, None])
