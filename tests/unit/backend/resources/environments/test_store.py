import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from backend.isolation.sandbox import interpreter
from backend.resources.environments import store as store_module
from backend.resources.environments.lock import Lock, PackagesError
from backend.resources.environments.store import PackageStore
from backend.settings import PackageSettings
from tests.support.poll import LONGEST_WAIT_SECONDS
from tests.support.wheels import make_wheel


def built(store: PackageStore, *requirements: str) -> tuple[Lock, Path]:
    lock = store.resolve(list(requirements))
    return lock, store.ensure(lock.digest, lambda: lock).folder


def test_a_lock_has_the_newest_versions_of_all_that_is_needed_with_hashes(store: PackageStore, wheels: Path) -> None:
    make_wheel(wheels, "alpha", "1.0", requires=("beta>=1",))
    make_wheel(wheels, "beta", "1.0")
    make_wheel(wheels, "beta", "1.2")
    lock = store.resolve(["alpha"])
    assert lock.versions == ["alpha==1.0", "beta==1.2"]
    assert lock.text.count("--hash=sha256:") == 2
    assert str(wheels) not in lock.text


def test_the_same_requirements_give_the_same_lock(store: PackageStore, wheels: Path) -> None:
    make_wheel(wheels, "alpha")
    assert store.resolve(["alpha"]) == store.resolve(["alpha"])


def test_a_lock_is_kept_for_as_long_as_the_settings_say(
    settings: PackageSettings, store: PackageStore, wheels: Path, tmp_path: Path
) -> None:
    make_wheel(wheels, "alpha", "1.0")
    keeping = PackageStore(replace(settings, lock_seconds=3600), tmp_path / "packages", interpreter.executable)
    lock = keeping.resolve(["alpha"])
    make_wheel(wheels, "alpha", "2.0")
    assert keeping.resolve(["alpha"]) == lock
    assert keeping.resolve(["alpha>=1"]).versions == ["alpha==2.0"]
    assert store.resolve(["alpha"]).versions == ["alpha==2.0"]
    for kept in (tmp_path / "packages" / "locks").iterdir():
        os.utime(kept, (0, 0))
    assert keeping.resolve(["alpha"]).versions == ["alpha==2.0"]


def test_a_lock_that_a_clock_ahead_stored_is_not_kept_for_longer(
    settings: PackageSettings, wheels: Path, tmp_path: Path
) -> None:
    make_wheel(wheels, "alpha", "1.0")
    keeping = PackageStore(replace(settings, lock_seconds=3600), tmp_path / "packages", interpreter.executable)
    keeping.resolve(["alpha"])
    make_wheel(wheels, "alpha", "2.0")
    ahead = time.time() + 2 * 3600
    for kept in (tmp_path / "packages" / "locks").iterdir():
        os.utime(kept, (ahead, ahead))
    assert keeping.resolve(["alpha"]).versions == ["alpha==2.0"]


@pytest.mark.parametrize(
    ("requirements", "words"),
    [
        (["missing"], "missing was not found"),
        (["alpha==9"], "there is no version of alpha==9"),
        (["alpha", "beta<1"], "alpha"),
        (["elsewhere"], "elsewhere"),
    ],
)
def test_what_cannot_be_resolved_is_told_in_the_resolvers_words(
    store: PackageStore, wheels: Path, requirements: list[str], words: str
) -> None:
    make_wheel(wheels, "alpha", requires=("beta>=1",))
    make_wheel(wheels, "beta", "0.5")
    make_wheel(wheels, "elsewhere", tag="cp27-cp27m-win32")
    with pytest.raises(PackagesError) as refused:
        store.resolve(requirements)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_without_an_index_and_a_folder_the_settings_are_named(tmp_path: Path) -> None:
    store = PackageStore(PackageSettings(index_url=None), tmp_path, interpreter.executable)
    with pytest.raises(PackagesError, match=r"packages\.index_url"):
        store.resolve(["alpha"])


def test_a_folder_that_cannot_be_used_is_told(settings: PackageSettings, tmp_path: Path) -> None:
    (tmp_path / "a-file").write_bytes(b"")
    store = PackageStore(settings, tmp_path / "a-file" / "packages", interpreter.executable)
    with pytest.raises(PackagesError, match="on this machine: Not a directory"):
        store.resolve(["alpha"])
    with pytest.raises(PackagesError, match="on this machine: Not a directory"):
        store.ensure("0" * 64, lambda: Lock(""))


def test_packages_are_built_once_with_byte_code_and_read_only(store: PackageStore, wheels: Path) -> None:
    make_wheel(wheels, "alpha", files={"alpha/__init__.py": "", "alpha_tools.py": ""})
    lock, folder = built(store, "alpha")
    assert store.find(lock.digest) == store.ensure(lock.digest, pytest.fail)
    assert list(folder.glob("alpha/__pycache__/*.pyc"))
    assert not [path for path in folder.rglob("*") if path.stat().st_mode & 0o222]
    found = store.find(lock.digest)
    assert found is not None
    assert found.modules == ("alpha", "alpha_tools")


def test_a_wheel_with_other_bytes_than_the_lock_says_is_refused(store: PackageStore, wheels: Path) -> None:
    make_wheel(wheels, "alpha")
    lock = store.resolve(["alpha"])
    make_wheel(wheels, "alpha", files={"alpha.py": "replaced = True\n"})
    with pytest.raises(PackagesError, match=r"[Hh]ash"):
        store.ensure(lock.digest, lambda: lock)
    assert store.find(lock.digest) is None


def test_nothing_is_left_of_a_build_that_failed(store: PackageStore, wheels: Path, tmp_path: Path) -> None:
    for name in ("alpha", "beta"):
        make_wheel(wheels, name)
    lock = store.resolve(["alpha", "beta"])
    make_wheel(wheels, "beta", files={"beta.py": "VERSION = 'another'\n"})
    with pytest.raises(PackagesError):
        store.ensure(lock.digest, lambda: lock)
    assert [path.name for path in tmp_path.rglob(f"{lock.digest}*")] == [f"{lock.digest}.lock"]


def test_a_source_distribution_is_never_built(store: PackageStore, wheels: Path) -> None:
    (wheels / "alpha-1.0.tar.gz").write_bytes(b"")
    with pytest.raises(PackagesError, match="alpha"):
        store.resolve(["alpha"])


def test_a_build_that_writes_too_much_ends_with_the_bound(
    settings: PackageSettings, wheels: Path, tmp_path: Path
) -> None:
    make_wheel(wheels, "alpha", files={f"alpha/part_{number}.py": "#" * 2**20 for number in range(3)})
    store = PackageStore(replace(settings, unpacked_mb=1), tmp_path / "packages", interpreter.executable)
    lock = store.resolve(["alpha"])
    with pytest.raises(PackagesError):
        store.ensure(lock.digest, lambda: lock)
    assert store.find(lock.digest) is None


def test_what_takes_too_long_ends_with_the_bound(settings: PackageSettings, wheels: Path, tmp_path: Path) -> None:
    make_wheel(wheels, "alpha")
    store = PackageStore(replace(settings, resolve_seconds=0), tmp_path / "packages", interpreter.executable)
    with pytest.raises(PackagesError, match="longer than 0 seconds"):
        store.resolve(["alpha"])


def test_two_who_need_a_build_at_once_get_the_same(store: PackageStore, wheels: Path) -> None:
    make_wheel(wheels, "alpha")
    lock = store.resolve(["alpha"])
    loads: list[Lock] = []
    folders: list[Path] = []

    def load() -> Lock:
        loads.append(lock)
        return lock

    threads = [
        threading.Thread(target=lambda: folders.append(store.ensure(lock.digest, load).folder)) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(folders) == 3
    assert len(set(folders)) == 1
    assert len(loads) == 1


def test_a_build_that_lost_files_is_built_again(
    settings: PackageSettings, store: PackageStore, wheels: Path, tmp_path: Path
) -> None:
    make_wheel(wheels, "alpha")
    lock, folder = built(store, "alpha")
    folder.chmod(0o755)
    (folder / "alpha.py").unlink()
    later = PackageStore(settings, tmp_path / "packages", interpreter.executable)
    assert later.find(lock.digest) is None
    assert (later.ensure(lock.digest, lambda: lock).folder / "alpha.py").exists()


def test_unused_packages_are_removed_after_the_days_of_the_settings(store: PackageStore, wheels: Path) -> None:
    make_wheel(wheels, "alpha")
    make_wheel(wheels, "beta")
    (alpha, _), (beta, folder) = built(store, "alpha"), built(store, "beta")
    assert store.remove_unused(()) == []
    long_ago = time.time() - 8 * 86_400
    for one in (alpha, beta):
        os.utime(folder.parents[1] / one.digest / "used", (long_ago, long_ago))
    assert store.remove_unused({alpha.digest}) == [beta.digest]
    assert store.find(beta.digest) is None
    assert store.find(alpha.digest) is not None


def test_what_a_killed_process_left_is_removed_after_the_same_days(store: PackageStore, tmp_path: Path) -> None:
    folder = tmp_path / "packages"
    old_lock = "0a" * 32
    for left in (folder / "scratch" / "resolve-old" / "cache", folder / "scratch" / "resolve-now"):
        left.mkdir(parents=True)
    (folder / "locks").mkdir()
    (folder / "locks" / old_lock).write_text("")
    for left in (folder / "scratch" / "resolve-old", folder / "locks" / old_lock):
        os.utime(left, (0, 0))
    store.remove_unused(())
    assert [path.name for path in folder.glob("*/*")] == ["resolve-now"]


def test_nothing_of_the_machine_reaches_the_process(
    store: PackageStore, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://secret@127.0.0.1:1/")
    monkeypatch.setenv("UV_FIND_LINKS", "/nowhere")
    make_wheel(wheels, "alpha")
    assert store.resolve(["alpha"]).versions == ["alpha==1.0"]


def test_no_more_calls_than_resolve_at_once_wait_long_for_an_index(
    store: PackageStore, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(wheels, "alpha")
    monkeypatch.setattr(store_module, "RESOLVE_WAIT_SECONDS", 0.05)
    both, ended = threading.Barrier(3), threading.Event()

    def slow(*_: object) -> Lock:
        both.wait(LONGEST_WAIT_SECONDS)
        ended.wait(LONGEST_WAIT_SECONDS)
        return Lock("")

    with ThreadPoolExecutor(2) as threads, monkeypatch.context() as slowed:
        slowed.setattr(store_module, "resolve", slow)
        others = [threads.submit(store.resolve, [name]) for name in ("beta", "gamma")]
        both.wait(LONGEST_WAIT_SECONDS)
        with pytest.raises(PackagesError, match="apply it again in a minute"):
            store.resolve(["alpha"])
        ended.set()
        assert [other.result().text for other in others] == ["", ""]
    assert store.resolve(["alpha"]).versions == ["alpha==1.0"]


def test_what_others_keep_in_the_folder_of_packages_stays(store: PackageStore, tmp_path: Path) -> None:
    folder = tmp_path / "packages"
    others = [folder / "another-program" / "data", folder / "scratch" / "notes", folder / "locks" / "doors"]
    for other in others:
        other.mkdir(parents=True)
        os.utime(other, (0, 0))
    assert store.remove_unused(()) == []
    assert all(other.exists() for other in others)


@pytest.mark.parametrize("memory_mb", [8, 32])
def test_a_resolver_that_needs_too_much_memory_is_told_with_the_bound(
    settings: PackageSettings, wheels: Path, tmp_path: Path, memory_mb: int
) -> None:
    make_wheel(wheels, "alpha")
    store = PackageStore(replace(settings, memory_mb=memory_mb), tmp_path / "packages", interpreter.executable)
    with pytest.raises(PackagesError) as refused:
        store.resolve(["alpha"])
    assert str(refused.value) == f"it needed more than {memory_mb} MB of memory (packages.memory_mb)"
