"""The private parts of google-re2 that the search calls give what its public interface gives."""

import re

import re2  # type: ignore[import-untyped]  # ships no types
from hypothesis import given
from hypothesis import strategies as st

from redaction.rules.loader import all_rules
from redaction.search.linear_search import first_characters, search_for
from redaction.search.normalisation import normalised
from tests.unit.redaction.samples import SAMPLES

_RAW = normalised("\n" + "\n".join(value for values in SAMPLES.values() for value in values) + "\n").encode("latin-1")
_OPTIONS = re2.Options()
_OPTIONS.encoding = re2.Options.Encoding.LATIN1


def _public_search(pattern: str, raw: bytes, place: int) -> int:
    found = re2.compile(pattern.encode("latin-1"), _OPTIONS).search(raw, place)
    return -1 if found is None else int(found.start())


def test_a_search_finds_the_place_that_the_public_interface_finds() -> None:
    for rule in all_rules():
        search = search_for(rule.begins)
        for place in (0, 1, len(_RAW) // 2, len(_RAW)):
            assert search(_RAW, place) == _public_search(rule.begins, _RAW, place), rule.begins


@given(raw=st.binary(max_size=60), place=st.integers(0, 60))
def test_a_search_reads_any_bytes_from_a_place_on(raw: bytes, place: int) -> None:
    place = min(place, len(raw))
    assert search_for("[0-9][a-z\xe0-\xff]")(raw, place) == _public_search("[0-9][a-z\xe0-\xff]", raw, place)


def test_the_first_characters_of_a_pattern_hold_those_of_every_match() -> None:
    known = re.compile(first_characters("[b-d]x"))
    assert [character for character in "abcdz" if known.match(character)] == ["b", "c", "d"]


def test_a_pattern_that_matches_nothing_too_has_no_first_characters() -> None:
    assert first_characters("[0-9]*") == ""
