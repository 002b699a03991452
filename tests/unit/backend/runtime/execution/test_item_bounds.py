"""The bounds that the items of a fan-out share."""

from pathlib import Path

from backend.isolation.sandbox.inside.channel import OVER_DIRECTORIES, OVER_FILES
from backend.runtime.agents.base import event_budget
from backend.runtime.execution.item_bounds import ItemBounds
from backend.settings import OutputLimits, StepDataLimits


def _left(folder: Path, *paths: str) -> Path:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("x")
    return folder


def _paths(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_files_beyond_the_bound_of_all_items_are_removed(tmp_path: Path) -> None:
    bounds = ItemBounds(StepDataLimits(), OutputLimits(files=3), 2)
    first, second = _left(tmp_path / "0", "a", "b"), _left(tmp_path / "1", "a", "b", "c")
    shared = {"a", "b"}
    assert bounds.trim(first, set()) == {}
    assert bounds.trim(second, shared) == {OVER_FILES: 2}
    assert (_paths(first), _paths(second), shared) == (["a", "b"], ["a"], {"a"})


def test_directories_beyond_the_bound_go_with_their_files(tmp_path: Path) -> None:
    bounds = ItemBounds(StepDataLimits(), OutputLimits(directories=1), 1)
    folder = _left(tmp_path / "0", "a/1", "b/2", "c")
    shared = {"b/2"}
    assert bounds.trim(folder, shared) == {OVER_DIRECTORIES: 1}
    assert (_paths(folder), shared) == (["a", "a/1", "c"], set())


def test_events_are_counted_for_all_items() -> None:
    limits = StepDataLimits(events=2, log_bytes=1_000)
    bounds = ItemBounds(limits, OutputLimits(), 4)
    assert bounds.dropped_warning() is None
    assert [bounds.admits({"message": "at"}) for _ in range(3)] == [True, True, False]
    by_itself = event_budget(limits)
    by_itself.admit(100_000)
    bounds.count_dropped(by_itself)
    warning = bounds.dropped_warning()
    assert warning is not None
    assert (warning["dropped"], warning["exact"]) == (2, True)


def test_an_item_has_a_part_of_the_log_and_is_one_level_deep_in_the_list() -> None:
    of_one = ItemBounds(StepDataLimits(json_levels=10, log_bytes=1_000), OutputLimits(), 4).of_one
    assert (of_one.json_levels, of_one.log_bytes) == (9, 250)
