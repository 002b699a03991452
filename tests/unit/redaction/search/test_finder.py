"""The finder and the stream find in parts of a text what every rule finds in the whole of it."""

import itertools
from collections.abc import Sequence
from functools import cache

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from redaction import sweep
from redaction.entity_types import ENTITY_TYPES
from redaction.rules.rule import Match
from redaction.search import spans
from redaction.search.finder import Finder
from redaction.search.piece_labels import PieceLabels
from redaction.search.spans import replaced
from redaction.sweep import sweep_stream
from tests.unit.redaction.every_rule import find_by_every_rule
from tests.unit.redaction.samples import SAMPLES

_VALUES = [value for values in SAMPLES.values() for value in values]
_CLOSED = st.tuples(
    st.sampled_from(["Regards,", "Mit freundlichen Grüßen", "Thanks,", "-- ", "> Best", "x" * 30 + " Regards"]),
    st.sampled_from(["\n", "\r\n\r\n", "\n   \n\n\n", "\n>\n> "]),
    st.sampled_from(["Anna Kowalska", "J. Smith", "Tom, CEO", "Łukasz", "The Team", "see below"]),
).map("".join)
_FRAGMENTS = st.one_of(
    st.sampled_from(_VALUES),
    _CLOSED,
    _CLOSED.map(lambda closed: f"\n{closed}\n"),
    st.sampled_from(_VALUES).flatmap(lambda value: st.integers(1, len(value)).map(lambda cut: value[:cut])),
    st.sampled_from(
        [" ", "\n", ", ", ": ", "-", "", ".", "@", "//", "x" * 70, "9" * 20, "1 " * 30, "\u00a0", "é", "\ud800"]
    ),
    st.text(max_size=12),
    st.from_regex(r"[0-9A-Z .:@+/-]{1,20}", fullmatch=True),
)
_BESIDE = st.tuples(st.sampled_from(["phone", "SSN", "tax file", "passport no", "born"]), st.integers(1, 42)).map(
    lambda beside: beside[0] + " " * beside[1] + "212 555 2671, 123456789, 1/2/80"
)
_LABELS = st.sampled_from(["", "notes", "ssn", "phone", "tax id", "passport no", "date of birth", "account"])
_CELLS = st.lists(st.tuples(st.lists(_FRAGMENTS | _BESIDE, max_size=4).map("".join), _LABELS), min_size=1, max_size=20)
_TEXTS = st.lists(_FRAGMENTS, max_size=25).map("".join)
_LONG_TEXTS = st.lists(_FRAGMENTS, min_size=60, max_size=120).map(lambda parts: "".join(parts * 3))
_SLOW = settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@settings(deadline=None, max_examples=300)
@given(text=_TEXTS, floor=st.sampled_from([0.5, 0.8, 1.0]))
@example(text="\u212a \u017f ssn 123456789", floor=0.8)
def test_the_prefilter_misses_nothing(text: str, floor: float) -> None:
    assert _finder(floor).find(text) == _reference(floor, text)


@settings(deadline=None, max_examples=200)
@given(cells=_CELLS, window=st.integers(20, 300), floor=st.sampled_from([0.5, 0.8, 0.9]))
def test_the_prefilter_misses_nothing_that_words_and_labels_tell(
    cells: list[tuple[str, str]], window: int, floor: float
) -> None:
    starts = list(itertools.accumulate((len(cell) + 1 for cell, _ in cells), initial=0))
    labels = [label for _, label in cells]
    text = "\n".join(cell for cell, _ in cells)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spans, "WINDOW", window)
        assert _finder(floor).find(text, PieceLabels(starts, labels)) == _reference(floor, text, starts, labels)


@pytest.mark.parametrize(("gap", "found"), [(34, 1), (35, 1), (36, 0)])
def test_the_prefilter_reads_as_far_as_a_context_reaches(gap: int, found: int) -> None:
    text = "phone" + " " * gap + "2125552671"
    assert len(_finder(0.8).find(text)) == len(_reference(0.8, text)) == found


@_SLOW
@given(text=_LONG_TEXTS, window=st.integers(20, 3000), floor=st.sampled_from([0.5, 0.8]))
def test_windows_find_what_the_whole_text_holds(text: str, window: int, floor: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spans, "WINDOW", window)
        assert _finder(floor).find(text) == _reference(floor, text)


@_SLOW
@given(text=_LONG_TEXTS, sizes=st.lists(st.integers(1, 5000), min_size=1), lines=st.booleans())
def test_a_stream_is_swept_as_the_whole_text_is(text: str, sizes: list[int], lines: bool) -> None:
    finder = _finder(0.5)
    text = text if lines else text.replace("\n", " ")
    streamed = "".join(sweep_stream(_blocks(text, sizes), finder.find_all, replaced, batch=1))
    assert streamed == replaced(text, _reference(0.5, text))


@pytest.mark.parametrize("size", [20, 35, 50, 200])
def test_a_cut_keeps_the_lines_above_whole(size: int) -> None:
    finder = _finder(0.8)
    text = "".join(f"{' so'[: number % 4]}Regards,\n\nAnna Kowalska\n" for number in range(400))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spans, "WINDOW", size)
        patch.setattr(sweep, "REACH", size)
        found = finder.find(text)
        streamed = "".join(sweep_stream(_blocks(text, [size // 3]), finder.find_all, replaced, batch=1))
    assert found == _reference(0.8, text)
    assert len(found) == 200
    assert streamed == replaced(text, found)


def test_a_chain_longer_than_a_batch_leaks_nothing() -> None:
    chain = "".join(f"1{place:07d}" for place in range(2000))

    def links(text: str) -> list[Match]:
        return [Match(at, min(at + 12, len(text)), "CRYPTO", 1.0) for at in range(0, len(text), 8)]

    swept = "".join(sweep_stream(_blocks(chain, [1000]), links, replaced, batch=1))
    assert set(swept.split("[CRYPTO]")) == {""}


@cache
def _finder(floor: float) -> Finder:
    return Finder(ENTITY_TYPES, floor)


def _reference(floor: float, text: str, starts: Sequence[int] = (), labels: Sequence[str] = ()) -> list[Match]:
    return find_by_every_rule(_finder(floor).rules, text, floor, starts, labels)


def _blocks(text: str, sizes: list[int]) -> list[str]:
    blocks: list[str] = []
    place = 0
    while place < len(text):
        size = sizes[len(blocks) % len(sizes)]
        blocks.append(text[place : place + size])
        place += size
    return blocks
