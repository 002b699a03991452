import os
from pathlib import Path

import pytest

from backend.runtime.agents.tools import MOST_LISTED, NOT_THERE, READ_BYTES, list_folder_files, read_folder_file


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    root = tmp_path / "inputs" / "documents"
    (root / "deep").mkdir(parents=True)
    (root / "a.txt").write_text("naïve")
    (root / "deep" / "b.txt").write_text("b")
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "c.txt").write_text("secret")
    (root / "link.txt").symlink_to(tmp_path / "secret.txt")
    (root / "link").symlink_to(tmp_path / "other")
    os.mkfifo(root / "pipe")
    return {"documents": root}


def test_regular_files_are_listed(folders: dict[str, Path]) -> None:
    files = [{"path": "documents/a.txt", "size_bytes": 6}, {"path": "documents/deep/b.txt", "size_bytes": 1}]
    assert list_folder_files(folders, "") == {"files": files, "not_listed": 0}
    assert list_folder_files(folders, "documents/deep/") == {"files": files[1:], "not_listed": 0}


def test_a_long_list_is_cut_and_says_by_how_much(folders: dict[str, Path]) -> None:
    for number in range(MOST_LISTED):
        (folders["documents"] / f"n{number:04}").touch()
    listed = list_folder_files(folders, "")
    assert (len(listed["files"]), listed["not_listed"]) == (MOST_LISTED, 2)


def test_a_file_is_read(folders: dict[str, Path]) -> None:
    assert read_folder_file(folders, "documents/a.txt", 0) == {"text": "naïve", "size_bytes": 6, "next_offset": None}
    assert read_folder_file(folders, "documents/a.txt", 4)["text"] == "ve"
    nothing = {"text": "", "size_bytes": 6, "next_offset": None}
    for beyond in (100, 2**63 - 1, 10**20):
        assert read_folder_file(folders, "documents/a.txt", beyond) == nothing


@pytest.mark.parametrize(
    "path",
    [
        "documents/link.txt",
        "documents/link/c.txt",
        "documents/../../secret.txt",
        "documents/./a.txt",
        "documents//a.txt",
        "documents/deep",
        "documents/pipe",
        "documents/a.txt/x",
        "documents/",
        "documents",
        "other/c.txt",
        "/etc/passwd",
        "documents/a.txt\0",
        "documents/\ud800",
        "documents/" + "x" * 5000,
        "",
    ],
)
def test_nothing_but_the_files_of_the_folder_is_read(folders: dict[str, Path], path: str) -> None:
    assert read_folder_file(folders, path, 0) == NOT_THERE


def test_a_large_file_is_read_in_parts_that_cut_no_character(folders: dict[str, Path]) -> None:
    text = "x" + "契約" * 30_000
    (folders["documents"] / "large").write_text(text)
    read, offset = "", 0
    while offset is not None:
        part = read_folder_file(folders, "documents/large", offset)
        assert len(part["text"].encode()) <= READ_BYTES
        read, offset = read + part["text"], part["next_offset"]
    assert read == text


def test_a_file_that_is_no_text_is_told(folders: dict[str, Path]) -> None:
    (folders["documents"] / "bytes").write_bytes(b"\x89PNG\0\0")
    assert read_folder_file(folders, "documents/bytes", 0) == {"error": "this is not a text file", "size_bytes": 6}
