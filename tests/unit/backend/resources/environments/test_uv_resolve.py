"""Indexes that packages come from."""

from pathlib import Path

import pytest

from backend.isolation.sandbox import interpreter
from backend.resources.environments.lock import PackagesError
from backend.resources.environments.store import PackageStore
from backend.settings import PackageSettings
from tests.support.package_index import package_index
from tests.support.wheels import make_wheel

PASSWORD = "hunter2-hunter2"


def store_of(tmp_path: Path, index_url: str, extra_index_url: str | None = None) -> PackageStore:
    settings = PackageSettings(index_url=index_url, extra_index_url=extra_index_url)
    return PackageStore(settings, tmp_path / "packages", interpreter.executable)


def test_packages_come_from_an_index_with_a_password(tmp_path: Path) -> None:
    make_wheel(tmp_path / "wheels", "alpha", "1.5")
    with package_index(tmp_path / "wheels", f"reader:{PASSWORD}") as index:
        store = store_of(tmp_path, f"http://reader:{PASSWORD}@{index}/simple")
        lock = store.resolve(["alpha"])
        assert lock.versions == ["alpha==1.5"]
        assert PASSWORD not in lock.text
        assert index not in lock.text
        assert (store.ensure(lock.digest, lambda: lock).folder / "alpha.py").is_file()


def test_a_package_of_the_extra_index_is_never_taken_from_the_other(tmp_path: Path) -> None:
    make_wheel(tmp_path / "own", "alpha", "1.0")
    make_wheel(tmp_path / "public", "alpha", "9.0")
    make_wheel(tmp_path / "public", "beta", "2.0")
    with package_index(tmp_path / "own") as own, package_index(tmp_path / "public") as public:
        store = store_of(tmp_path, f"http://{public}/simple", f"http://{own}/simple")
        assert store.resolve(["alpha", "beta"]).versions == ["alpha==1.0", "beta==2.0"]


@pytest.mark.parametrize("credentials", [f"reader:{PASSWORD}", f"{PASSWORD}:reader"])
def test_a_failure_quotes_no_credentials(tmp_path: Path, credentials: str) -> None:
    (tmp_path / "wheels").mkdir()
    with package_index(tmp_path / "wheels", "somebody:else") as index:
        store = store_of(tmp_path, f"http://{credentials}@{index}/simple")
        with pytest.raises(PackagesError) as refused:
            store.resolve(["alpha"])
    assert PASSWORD not in str(refused.value)
    assert "lack of valid authentication credentials (401 Unauthorized)" in str(refused.value)


def test_an_index_that_cannot_be_reached_is_told(tmp_path: Path) -> None:
    with package_index(tmp_path) as index:
        gone = index
    with pytest.raises(PackagesError, match=r"[Cc]onnect|client error|request"):
        store_of(tmp_path, f"http://{gone}/simple").resolve(["alpha"])
