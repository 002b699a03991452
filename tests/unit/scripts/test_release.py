"""A release is named the same everywhere, and its notes are those of the changelog."""

import re

import pytest

from scripts.release import ROOT, commands, disagreements, newest_entry, version

CHANGELOG = "# Changelog\n\n## [2.0.0] - 2026-03-01\n\n### Added\n\n- More.\n\n## [1.0.0] - 2026-01-01\n\n- All.\n"


def test_every_file_names_the_release_with_which_the_changelog_begins() -> None:
    assert list(disagreements()) == []


def test_the_notes_of_a_release_end_where_the_one_before_begins() -> None:
    assert newest_entry(CHANGELOG) == ("2.0.0", "2026-03-01", "### Added\n\n- More.")
    with pytest.raises(ValueError, match="no entry"):
        newest_entry("# Changelog\n")


def test_an_image_is_published_only_under_a_name() -> None:
    (ROOT / "dist").mkdir(exist_ok=True)
    assert not any("docker" in command for command in commands(None))
    assert ["docker", "push", f"images.example.org/one:{version()}"] in commands("images.example.org/one")


def test_what_is_developed_with_is_what_is_installed() -> None:
    pins = {
        file.stem: set(re.findall(r"^([a-z0-9.-]+==[^ ]+)", file.read_text(), re.MULTILINE))
        for file in (ROOT / "requirements").glob("*.txt")
    }
    apart = {"dev", "fuzz", "generator"}
    assert {
        name: given - pins["dev"] for name, given in pins.items() if name not in apart and given - pins["dev"]
    } == {}
