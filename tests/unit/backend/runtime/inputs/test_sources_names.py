"""Any key lands inside the folder, under a name of its own."""

import hashlib
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backend.runtime.inputs.sources import file_names

NASTY = st.sampled_from(
    ["", ".", "..", "a", "A", "é", "e\u0301", "%2F", "%2E%2E", "~", "a\0b", "\u2028", "x" * 256, "ü" * 200]
)
KEYS = st.lists(
    st.one_of(st.lists(st.one_of(NASTY, st.text(max_size=5)), min_size=1, max_size=8).map("/".join), st.text())
)


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("a.txt", "a.txt"),
        ("b/d é +%&#.txt", "b/d é +%&#.txt"),
        (".hidden/100%.txt", ".hidden/100%.txt"),
        ("k" * 255, "k" * 255),
        ("../../etc/passwd", "%2E%2E/%2E%2E/etc/passwd"),
        ("./a/.", "%2E/a/%2E"),
        ("/etc/passwd", "%2F/etc/passwd"),
        ("a//b", "a/%2F/b"),
        ("a/", "a/%2F"),
        ("", "%2F"),
        ("a\nb\0", "a%0Ab%00"),
        ("a\u2028b\ud800", "a%E2%80%A8b%ED%A0%80"),
        ("👩\u200d🚀 \u202e.txt", "👩\u200d🚀 \u202e.txt"),
    ],
)
def test_a_key_keeps_its_name_where_it_is_one(key: str, name: str) -> None:
    assert file_names([key]) == {key: name}


@pytest.mark.parametrize(
    ("key", "stem", "extension"),
    [
        ("x" * 1_024, "x" * 238, ""),
        ("ü" * 200 + ".csv", "ü" * 117, ".csv"),
        ("x." + "y" * 300, "x." + "y" * 236, ""),
        ("a/" * 65 + "b.csv", "b", ".csv"),
        ("/" * 400, "%2F", ""),
        ("\1" * 1_000, "%01" * 79 + "%", ""),
    ],
)
def test_a_name_that_is_too_long_or_too_deep_is_cut_and_marked(key: str, stem: str, extension: str) -> None:
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    assert file_names([key]) == {key: f"{stem}~{digest}{extension}"}


@pytest.mark.parametrize(
    ("keys", "changed"),
    [
        (["README", "readme"], {"readme"}),
        (["caf\u00e9", "cafe\u0301"], {"cafe\u0301"}),
        (["a", "a/b"], {"a"}),
        (["A", "a/b/c"], {"A"}),
        (["A/x", "a/y"], set()),
        (["%2E%2E", ".."], {".."}),
        (["straße", "STRASSE"], {"STRASSE"}),
    ],
)
def test_keys_that_would_meet_are_told_apart_by_a_mark(keys: list[str], changed: set[str]) -> None:
    names = file_names(keys)
    assert {key for key in keys if "~" in names[key]} == changed


@settings(max_examples=400, deadline=None)
@given(KEYS)
@example(["a~", "a", "a/b", "A/B", "a//b", "/a", "a/../b", "..", "../..", "%2E%2E"])
def test_names_are_safe_and_unique_whatever_the_keys(keys: list[str]) -> None:
    names = file_names(keys)
    assert set(names) == set(keys)
    folded = [unicodedata.normalize("NFC", name).casefold() for name in names.values()]
    assert len(set(folded)) == len(folded)
    folders = {parent.as_posix() for name in folded for parent in Path(name).parents}
    assert not folders.intersection(folded)
    for name in names.values():
        parts = name.split("/")
        assert {"", ".", ".."}.isdisjoint(parts)
        assert "\0" not in name
        assert max(len(part.encode()) for part in parts) <= 255
        assert len(parts) <= 65
        assert len(name.encode()) <= 1_100


def test_names_do_not_depend_on_what_else_is_there_unless_it_is_in_the_way() -> None:
    assert file_names(["../x", "b"])["../x"] == file_names(["../x"])["../x"]
