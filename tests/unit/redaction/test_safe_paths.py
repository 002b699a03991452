"""No path of an output leads out of the folder it is unpacked in, and no two become one."""

import ntpath
from pathlib import PurePosixPath, PureWindowsPath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from redaction.safe_paths import MAX_PART_BYTES, MAX_PATH_BYTES, plain_part, safe_member, safe_part, safe_path

PARTS = st.text(
    st.one_of(st.sampled_from("\\:%.. /25cC~-\0\x1f\x7f\x85\u202e"), st.characters(codec="utf-8")), min_size=1
).filter(lambda part: "/" not in part and part not in {".", ".."})


@pytest.mark.parametrize(
    ("part", "safe"),
    [
        ("report 1.csv", "report 1.csv"),
        ("100%.txt", "100%.txt"),
        ("ünï 数 👩‍👩‍👧.txt", "ünï 数 👩‍👩‍👧.txt"),
        (".hidden", ".hidden"),
        ("10:30.log", "10:30.log"),
        (r"s\..\..\win.txt", "s%5C..%5C..%5Cwin.txt"),
        (r"\\server\share", "%5C%5Cserver%5Cshare"),
        ("C:", "C%3A"),
        ("c:x", "c%3Ax"),
        ("a\nb\x00\x7f", "a%0Ab%00%7F"),
        ("a\x85b", "a%C2%85b"),
        ("a\u2028b", "a%E2%80%A8b"),
        ("gnp.\u202eexe", "gnp.%E2%80%AEexe"),
        ("a.", "a%2E"),
        ("a. .", "a%2E%20%2E"),
        (" ", "%20"),
        ("...", "%2E%2E%2E"),
        ("a%5Cb", "a%255Cb"),
        ("%%41", "%%2541"),
    ],
)
def test_what_a_system_may_take_for_more_than_a_name_is_encoded(part: str, safe: str) -> None:
    assert safe_part(part) == safe
    assert plain_part(safe) == part


@given(PARTS)
@example("a" * 256)
@example("\\" * 255)
@example("%" * 200 + "é" * 60 + ".tar.gz")
def test_a_safe_part_is_one_name_on_every_system(part: str) -> None:
    safe = safe_part(part)
    assert len(safe.encode()) <= MAX_PART_BYTES
    assert PurePosixPath(safe).name == PureWindowsPath(safe).name == safe
    assert not PureWindowsPath(safe).drive
    assert not set(safe) & {"\\", "/", "\0", "\n"}
    assert safe.rstrip(". ") == safe
    assert ntpath.normpath(f"out\\{safe}") == f"out\\{safe}"


@given(PARTS)
def test_a_part_that_was_not_shortened_can_be_read_back(part: str) -> None:
    """So no two parts have the same safe form."""
    safe = safe_part(part)
    if len(part.encode()) * 3 <= MAX_PART_BYTES:
        assert plain_part(safe) == part


@given(st.lists(PARTS, min_size=1, max_size=40))
def test_a_safe_path_has_at_most_1024_bytes(parts: list[str]) -> None:
    assert len(safe_path("/".join(parts)).encode()) <= MAX_PATH_BYTES


def test_paths_that_are_shortened_stay_apart() -> None:
    long = "\\" * 255
    first, second = safe_path(f"{long}a.csv"), safe_path(f"{long}b.csv")
    assert first != second
    assert first.endswith(".csv")
    assert safe_path(first) != first, "a file that bears the short form as its own name gets another"
    deep = "/".join(["\\" * 31] * 32)
    paths = {safe_path(f"{deep}/{name}") for name in ("a", "b")} | {safe_path(f"{deep[:-1]}x/a")}
    assert len(paths) == 3
    assert all(len(path.encode()) <= MAX_PART_BYTES for path in paths)


@pytest.mark.parametrize("name", ["..", "../a", "a/../b", "/..", "", "/", "./.", "a/.."])
def test_a_member_that_leads_upwards_or_nowhere_has_no_path(name: str) -> None:
    assert safe_member(name) is None


@pytest.mark.parametrize(
    ("name", "path"),
    [("/etc/a", "etc/a"), ("a//./b", "a/b"), ("C:/x", "C%3A/x"), (r"..\x", r"..%5Cx"), ("a/b /c.", "a/b%20/c%2E")],
)
def test_a_member_gets_a_path_below_its_folder(name: str, path: str) -> None:
    assert safe_member(name) == path
