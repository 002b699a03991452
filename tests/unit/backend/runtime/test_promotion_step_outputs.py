import logging
import threading
from pathlib import Path

import pytest

from backend.runtime.promotion import store_files
from backend.services.outputs.sql import NewOutput
from backend.storage.objects import FolderObjects, StoredObject
from backend.storage.tables.files import SharedFileRow


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "left"
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "a.txt").write_text("A")
    (folder / "b.csv").write_text("B")
    return folder


def stored(tmp_path: Path) -> int:
    return sum(path.is_file() for path in (tmp_path / "objects").rglob("*"))


def test_every_file_is_an_output_by_path(tmp_path: Path, folder: Path) -> None:
    outputs = store_files(FolderObjects(tmp_path / "objects"), "run_1", "write", folder, set(), threading.Event())
    assert [output.path for output in outputs] == ["write/b.csv", "write/notes/a.txt"]
    assert stored(tmp_path) == 2


def test_names_that_are_one_on_other_systems_get_a_mark_in_the_folder_and_in_the_outputs(tmp_path: Path) -> None:
    folder = tmp_path / "left"
    left = ["A.txt", "a.txt", "é/ß.csv", "e\u0301/SS.csv", "x", "X/y", "a~2.txt", "k", "K~2", "\u212a"]
    for path in left:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)
    outputs = store_files(FolderObjects(tmp_path / "objects"), "run_1", "write", folder, set(), threading.Event())
    named = {output.path.removeprefix("write/"): (folder / output.path[6:]).read_text() for output in outputs}
    assert named == {
        "A.txt": "A.txt",
        "a~3.txt": "a.txt",
        "a~2.txt": "a~2.txt",
        "é/ß~2.csv": "é/ß.csv",
        "e\u0301/SS.csv": "e\u0301/SS.csv",
        "x~2": "x",
        "X/y": "X/y",
        "k": "k",
        "K~2": "K~2",
        "\u212a~3": "\u212a",
    }
    again = store_files(FolderObjects(tmp_path / "objects"), "run_1", "write", folder, set(), threading.Event())
    assert [output.path for output in again] == [output.path for output in outputs]


def test_a_fault_at_one_file_leaves_none_stored(tmp_path: Path, folder: Path) -> None:
    class Full(FolderObjects):
        def put_file(self, key: str, source: Path) -> StoredObject:
            if source.name == "a.txt":
                raise OSError("full")
            return super().put_file(key, source)

    with pytest.raises(OSError, match="full"):
        store_files(Full(tmp_path / "objects"), "run_1", "write", folder, set(), threading.Event())
    assert stored(tmp_path) == 0


def test_a_store_that_keeps_what_is_discarded_is_asked_once_and_the_fault_is_told(
    tmp_path: Path, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "c.txt").write_text("C")
    asked: list[str] = []

    class Away(FolderObjects):
        def put_file(self, key: str, source: Path) -> StoredObject:
            if source.name == "a.txt":
                raise OSError("full")
            return super().put_file(key, source)

        def delete(self, key: str) -> None:
            asked.append(key)
            raise OSError("away")

    with pytest.raises(OSError, match="full"), caplog.at_level(logging.CRITICAL):
        store_files(Away(tmp_path / "objects"), "run_1", "write", folder, set(), threading.Event())
    assert len(asked) == 1


def test_no_file_is_begun_after_a_halt(tmp_path: Path, folder: Path) -> None:
    halt = threading.Event()

    class Halting(FolderObjects):
        def put_file(self, key: str, source: Path) -> StoredObject:
            halt.set()
            return super().put_file(key, source)

    outputs = store_files(Halting(tmp_path / "objects"), "run_1", "write", folder, set(), halt)
    assert [output.path for output in outputs] == ["write/b.csv"]
    assert stored(tmp_path) == 1


@pytest.mark.parametrize("again", [False, True], ids=["", "after a fault of the store"])
def test_shared_files_give_way_to_outputs_whose_names_are_one_on_other_systems(tmp_path: Path, again: bool) -> None:
    folder, shared = tmp_path / "left", {"A.txt", "own/c"}
    (folder / "own").mkdir(parents=True)
    for path in ("a.txt", "b", *shared):
        (folder / path).write_text(path)
    objects = FolderObjects(tmp_path / "objects")
    if again:
        store_files(objects, "run_1", "write", folder, shared, threading.Event())
    files = store_files(objects, "run_1", "write", folder, shared, threading.Event())
    assert {file.path: type(file) for file in files} == {
        "write/A~2.txt": SharedFileRow,
        "write/a.txt": NewOutput,
        "write/b": NewOutput,
        "write/own/c": SharedFileRow,
    }
    assert shared == {"A~2.txt", "own/c"}
    assert (folder / "A~2.txt").read_text() == "A.txt"


@pytest.mark.parametrize(
    ("promote", "share", "kinds"),
    [
        (False, True, [SharedFileRow, SharedFileRow]),
        (False, False, []),
        (True, False, [NewOutput]),
    ],
)
def test_shared_files_are_stored_where_later_steps_need_them(
    tmp_path: Path, folder: Path, promote: bool, share: bool, kinds: list[type]
) -> None:
    objects = FolderObjects(tmp_path / "objects")
    files = store_files(objects, "run_1", "write", folder, {"b.csv"}, threading.Event(), promote=promote, share=share)
    assert [type(file) for file in files] == kinds
    assert stored(tmp_path) == len(kinds)
