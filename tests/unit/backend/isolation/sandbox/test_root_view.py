"""Paths of a root on the host, which never lead out of it."""

from pathlib import Path

import pytest

from backend.isolation.sandbox.root_view import aliases, resolved, shown


def link(root: Path, path: str, target: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).symlink_to(target)


@pytest.mark.parametrize(
    ("target", "place"),
    [
        ("lib/x", "usr/lib/x"),
        ("/etc/x", "etc/x"),
        ("../../../etc/x", "etc/x"),
        ("../a/../b", "b"),
        ("missing/..", "usr"),
    ],
)
def test_links_are_followed_inside_the_root(tmp_path: Path, target: str, place: str) -> None:
    link(tmp_path, "usr/link", target)
    assert resolved(tmp_path, "/usr/link") == tmp_path / place


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    link(tmp_path, "a", "b")
    link(tmp_path, "b", "a")
    with pytest.raises(OSError, match="Too many levels"):
        resolved(tmp_path, "a/c")


def test_existing_parts_are_shown_at_their_own_path(tmp_path: Path) -> None:
    (tmp_path / "usr").mkdir()
    (tmp_path / "fonts").mkdir()
    (tmp_path / "home").mkdir()
    link(tmp_path, "etc/fonts", "/fonts")
    link(tmp_path, "lib", "usr/lib")
    assert list(shown(tmp_path)) == [(tmp_path / "usr", "/usr"), (tmp_path / "fonts", "/etc/fonts")]
    assert list(aliases(tmp_path)) == [("usr/lib", "/lib")]
