"""The code that agents name is packed from below the folder of their manifest."""

import os
from pathlib import Path

import pytest

from deploy.client.packing import pack

FILE = "kind: Agent\ncode_file: {path}\n"
FOLDER = "kind: Agent\nsource: {path}\n"


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


def test_a_file_and_a_folder_are_packed_by_their_paths(tmp_path: Path) -> None:
    write(tmp_path, "a.py", "agents/main.py", "agents/lib/data.bin", "other.py")
    packed = pack(tmp_path, f"{FILE.format(path='./a.py')}---\n{FOLDER.format(path='agents/')}")
    assert packed.files == {name: name.encode() for name in ("a.py", "agents/main.py", "agents/lib/data.bin")}
    assert packed.unreadable == {}


def test_a_requirements_file_is_packed_by_its_path(tmp_path: Path) -> None:
    write(tmp_path, "lists/r.txt")
    packed = pack(tmp_path, "kind: Environment\npython: {requirements: ./lists/r.txt}\n")
    assert packed.files == {"lists/r.txt": b"lists/r.txt"}


def test_what_belongs_to_tools_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, "agents/main.py", "agents/.env", "agents/.git/config", "agents/__pycache__/m.pyc", "agents/m.pyc")
    assert list(pack(tmp_path, FOLDER.format(path="agents")).files) == ["agents/main.py"]


def test_nothing_is_packed_of_a_manifest_without_files(tmp_path: Path) -> None:
    write(tmp_path, "a.py")
    for text in ("kind: Environment\n", "kind: Agent\ncode: a.py\n", "{", "kind: Agent\ncode_file: ../a.py\n", "[]"):
        assert pack(tmp_path, text).files == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (FILE.format(path="no.py"), "no.py cannot be read: No such file or directory"),
        (FILE.format(path="folder.py"), "must name a file; folder.py is none"),
        (FOLDER.format(path="a.py"), "must name a folder; a.py is none"),
        (FOLDER.format(path="empty"), "empty must have at least one file"),
        (FILE.format(path="link.py"), "link.py must not be a symbolic link: put the file itself there"),
        (FILE.format(path="away/passwd.py"), "away must not be a symbolic link: put the file itself there"),
        (FOLDER.format(path="linked"), "linked/x.py must not be a symbolic link: put the file itself there"),
        (FOLDER.format(path="piped"), "piped/pipe must be a plain file"),
        (FILE.format(path="a.py/b.py"), "a.py/b.py cannot be read: Not a directory"),
    ],
)
def test_what_cannot_be_packed_is_told(tmp_path: Path, text: str, reason: str) -> None:
    write(tmp_path, "a.py", "folder.py/x", "linked/main.py", "piped/main.py")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link.py").symlink_to("a.py")
    (tmp_path / "away").symlink_to("/etc")
    (tmp_path / "linked" / "x.py").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "piped" / "pipe")
    packed = pack(tmp_path, text)
    assert packed.files == {}
    ((told,),) = packed.unreadable.values()
    assert told == reason


def test_a_folder_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    write(tmp_path, "agents/main.py")
    with (tmp_path / "agents" / "big.bin").open("wb") as file:
        file.truncate(10 * 2**20)
    packed = pack(tmp_path, FOLDER.format(path="agents"))
    assert packed.unreadable == {
        "agents": (
            "agents must have at most 10,485,760 bytes; it has 10,485,774, of which agents/big.bin has 10,485,760",
        )
    }


def test_every_problem_of_a_folder_is_told(tmp_path: Path) -> None:
    write(tmp_path, "agents/main.py", "agents/a\\b", "agents/c\nd")
    (tmp_path / "agents" / "link").symlink_to("main.py")
    (reasons,) = pack(tmp_path, FOLDER.format(path="agents")).unreadable.values()
    assert len(reasons) == 3
