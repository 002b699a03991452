from backend.common.caches import RevisionedCache


def test_a_value_is_kept_for_its_revision_alone() -> None:
    kept = RevisionedCache()
    kept.put("a", 1, "value", 10)
    assert (kept.get("a", 1), kept.get("a", 2), kept.get("b", 1)) == ("value", None, None)
    kept.put("a", 2, "newer", 10)
    assert (kept.get("a", 1), kept.get("a", 2)) == (None, "newer")


def test_what_is_kept_is_bounded_by_size_and_the_last_used_stays() -> None:
    kept = RevisionedCache(max_size=30)
    for name in ("a", "b", "c"):
        kept.put(name, 1, name, 10)
    assert kept.get("a", 1) == "a"
    kept.put("d", 1, "d", 10)
    assert [kept.get(name, 1) for name in ("a", "b", "c", "d")] == ["a", None, "c", "d"]
    kept.put("a", 2, "larger", 20)
    assert [kept.get("a", 2), kept.get("c", 1), kept.get("d", 1)] == ["larger", None, "d"]


def test_what_is_larger_than_all_may_be_together_is_not_kept_and_takes_no_others_place() -> None:
    kept = RevisionedCache(max_size=30)
    for name in ("a", "b"):
        kept.put(name, 1, name, 10)
    kept.put("a", 2, "huge", 31)
    assert [kept.get("a", 1), kept.get("a", 2), kept.get("b", 1)] == [None, None, "b"]
    kept.put("c", 1, "c", 20)
    assert [kept.get(name, 1) for name in ("b", "c")] == ["b", "c"]
