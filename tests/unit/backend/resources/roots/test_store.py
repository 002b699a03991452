"""Roots of a machine: added as a whole, found by name and digest, and removed."""

import fcntl
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from backend.isolation.sandbox import StepRoot
from backend.resources.roots.store import RootStore
from backend.resources.roots.tree import RootError
from tests.support.roots import PROGRAM, entry, make_root, tar, tar_of, write_image


@pytest.fixture
def store(tmp_path: Path) -> RootStore:
    return RootStore(tmp_path / "roots")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_root(tmp_path_factory.mktemp("source"))


def test_a_folder_and_an_image_of_it_have_one_digest(store: RootStore, source: Path, tmp_path: Path) -> None:
    folder = store.add("folder", source, 5)
    image = store.add("image", write_image(tmp_path / "image.tar", tar_of(source)), 5)
    assert image == replace(folder, name="image")
    assert store.all() == [folder, image]
    assert folder.c_library.startswith("glibc 2.")


def test_an_addition_removes_what_killed_ones_left_long_ago(store: RootStore, source: Path, tmp_path: Path) -> None:
    abandoned, recent, locked = (tmp_path / "roots" / f".new-{name}" for name in ("abandoned", "recent", "locked"))
    for folder in (abandoned, recent, locked):
        (folder / "root" / "usr").mkdir(parents=True)
    for folder in (abandoned, locked):
        os.utime(folder, (1, 1))
    lock = os.open(locked, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    store.add("folder", source, 5)
    os.close(lock)
    assert [folder.exists() for folder in (abandoned, recent, locked)] == [False, True, True]


@pytest.mark.parametrize("change", ["content", "right", "target", "name"])
def test_the_digest_is_of_all_that_steps_see(store: RootStore, source: Path, tmp_path: Path, change: str) -> None:
    other = tmp_path / "other"
    shutil.copytree(source, other, symlinks=True)
    program = other / "usr" / "bin" / PROGRAM
    if change == "content":
        program.write_bytes(program.read_bytes() + b"\0")
    elif change == "right":
        program.chmod(0o644)
    elif change == "target":
        (other / "lib").unlink()
        (other / "lib").symlink_to("/usr/lib")
    else:
        program.rename(program.with_name("renamed"))
    assert store.add("other", other, 5).digest != store.add("same", source, 5).digest


def test_times_and_what_is_not_kept_do_not_change_the_digest(store: RootStore, source: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(source, other, symlinks=True, copy_function=shutil.copy)
    (other / "etc" / "shadow").write_text("other")
    (other / "proc").mkdir()
    assert store.add("other", other, 5).digest == store.add("same", source, 5).digest


def test_a_failed_addition_leaves_nothing(store: RootStore, tmp_path: Path) -> None:
    archive = write_image(tmp_path / "image.tar", tar([entry("usr/x", b"1")]), tar([entry("usr/../x", b"1")]))
    with pytest.raises(RootError, match="not allowed"):
        store.add("broken", archive, 5)
    assert list((tmp_path / "roots").iterdir()) == []
    assert store.get("broken") is None


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", ".new-x", "x" * 81])
def test_a_name_that_is_not_allowed_is_refused(store: RootStore, source: Path, name: str) -> None:
    with pytest.raises(RootError, match="must be 1 to 80 lowercase letters"):
        store.add(name, source, 5)
    assert store.get(name) is None


def test_a_taken_name_is_refused(store: RootStore, source: Path) -> None:
    store.add("taken", source, 5)
    with pytest.raises(RootError, match="a root 'taken' exists on this machine"):
        store.add("taken", source, 6)


def test_a_folder_without_usr_is_refused(store: RootStore, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(RootError, match="it has no folder usr"):
        store.add("empty", tmp_path / "empty", 5)


def test_programs_for_another_machine_are_refused(store: RootStore, source: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(source, other, symlinks=True)
    shell = other / "usr" / "bin" / "sh"
    content = bytearray(shell.read_bytes())
    content[18:20] = b"\x16\x00"
    shell.write_bytes(content)
    with pytest.raises(RootError, match="for another kind of machine"):
        store.add("other", other, 5)


def test_a_missing_root_and_one_with_another_digest_are_named(store: RootStore, source: Path) -> None:
    with pytest.raises(RootError, match="the root 'tools' is not on this machine, and must have the digest abc"):
        store.for_step("tools", "abc")
    has = store.add("tools", source, 5).digest
    with pytest.raises(RootError, match=f"has the digest {has} on this machine, and must have abc"):
        store.for_step("tools", "abc")
    assert store.for_step("tools", has).digest == has


def test_a_removed_root_is_not_found(store: RootStore, source: Path, tmp_path: Path) -> None:
    digest = store.add("tools", source, 5).digest
    store.for_step("tools", digest)
    store.remove("tools")
    assert list((tmp_path / "roots").iterdir()) == []
    with pytest.raises(RootError, match="there is no root 'tools'"):
        store.remove("tools")
    with pytest.raises(RootError, match="is not on this machine"):
        store.for_step("tools", digest)


def test_processes_that_make_the_links_of_a_root_at_once_share_them(
    store: RootStore, source: Path, tmp_path: Path
) -> None:
    digest = store.add("tools", source, 5).digest
    stores = [RootStore(tmp_path / "roots") for _ in range(8)]
    started = threading.Barrier(len(stores))

    def find(each: RootStore) -> StepRoot:
        started.wait()
        return each.for_step("tools", digest)

    with ThreadPoolExecutor(len(stores)) as threads:
        found = set(threads.map(find, stores))
    assert len(found) == 1
    assert sorted(path.name for path in (tmp_path / "roots" / "tools").iterdir()) == sorted(
        ["root", "root.json", found.pop().links.name]
    )


def test_a_root_that_was_removed_and_added_again_has_its_links(store: RootStore, source: Path) -> None:
    for now in range(5, 15):
        digest = store.add("tools", source, now).digest
        assert store.for_step("tools", digest).links.is_dir()
        store.remove("tools")
