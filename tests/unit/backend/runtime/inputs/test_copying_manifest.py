import pytest

from backend.runtime.inputs.copying import Item, item_of, manifest_entry, require_unchanged


def _items(count: int, *, size: int = 1) -> list[Item]:
    return [item_of(f"in/{number:04}", size, f"etag-{number}") for number in range(count)]


def _compare(before: list[Item], now: list[Item]) -> None:
    recorded, entry = (manifest_entry("documents", "con_1", "s3://docs/in/", items) for items in (before, now))
    require_unchanged(entry, now, recorded)


def test_the_same_objects_are_unchanged_in_any_order_of_their_listing() -> None:
    _compare(_items(1_500), [*reversed(_items(1_500))])


@pytest.mark.parametrize(
    ("now", "why"),
    [
        ([*_items(1_501)], "began with 1,500 objects of 1,500 bytes, and now there are 1,501 of 1,501"),
        ([*_items(1_499), item_of("in/1499", 2, "")], "of 1,500 bytes, and now there are 1,500 of 1,501"),
        ([*_items(1_500)[1:], item_of("in/9999", 1, "")], "the object 'in/0000' was removed after the run began"),
        ([item_of("in/0000", 1, "another"), *_items(1_500)[1:]], "the object 'in/0000' was changed after the run"),
    ],
)
def test_objects_beyond_the_listed_ones_are_compared_by_number_and_bytes(now: list[Item], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        _compare(_items(1_500), now)


def test_uploads_with_files_of_one_name_are_unchanged() -> None:
    _compare([item_of("a", 1, "one"), item_of("a", 1, "two")], [item_of("a", 1, "one"), item_of("a", 1, "two")])
