"""A cell that is one value from end to end is found as a search finds it."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redaction.entity_types import ENTITY_TYPES
from redaction.rules.labels import plain_label
from redaction.rules.rule import Value
from redaction.search import cells as cells_module
from redaction.search.cells import find_in_cells
from redaction.search.finder import Finder
from redaction.search.piece_labels import PieceLabels
from tests.unit.redaction.samples import SAMPLES

_VALUES = st.sampled_from([value.rpartition(": ")[2] for values in SAMPLES.values() for value in values])
_CELLS = st.one_of(
    _VALUES,
    _VALUES.map(lambda value: f'"{value}"'),
    _VALUES.flatmap(lambda value: st.integers(1, len(value)).map(lambda cut: value[cut:])),
    st.from_regex(r"[0-9]{0,8}|[0-9]{1,4}\.[0-9]{1,3}|[0-9A-Z .:@+/-]{1,20}", fullmatch=True),
    st.text(max_size=12).map(lambda text: text.replace("\n", " ")),
)
_LABELS = st.sampled_from(["", "notes", "ssn", "phone", "account", "licence no", "card", "ip"])


@cache
def _finder(floor: float) -> Finder:
    return Finder(ENTITY_TYPES, floor)


@settings(deadline=None, max_examples=150)
@given(cells=st.lists(st.tuples(_CELLS, _LABELS), min_size=1, max_size=12), floor=st.sampled_from([0.5, 0.8]))
def test_a_cell_is_found_as_its_text_under_its_label_is(cells: list[tuple[str, str]], floor: float) -> None:
    finder = _finder(floor)
    texts, labels = [cell for cell, _ in cells], [label for _, label in cells]
    found = _found(finder, floor, texts, labels)
    searched = {index: _searched(finder, text, label) for index, (text, label) in enumerate(cells)}
    assert found == {index: values for index, values in searched.items() if values}


@settings(deadline=None, max_examples=100)
@given(cells=st.lists(_CELLS, min_size=8, max_size=24), label=_LABELS, floor=st.sampled_from([0.5, 0.8]))
def test_a_cell_of_a_column_is_found_as_its_text_is(cells: list[str], label: str, floor: float) -> None:
    cells = [*cells, *cells[:4]]
    found = _found(_finder(floor), floor, cells, [label] * len(cells))
    searched = {index: _searched(_finder(floor), cell, label) for index, cell in enumerate(cells)}
    assert found == {index: values for index, values in searched.items() if values}


def test_a_postal_code_in_the_cell_below_makes_no_address_of_a_cell() -> None:
    cells = ["4111 1111 1111 1111"] * 6 + ["AA0", "5698 7654 32", "AA0", "Jane Street 5"]
    found = _found(_finder(0.5), 0.5, cells, [""] * len(cells))
    assert 6 not in found
    assert 8 not in found


def test_a_label_tells_of_a_cell_that_no_rule_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    given = ["Anna", '"Anna"', "a" * 100, "", "null"]
    found = _found(_finder(0.8), 0.8, given, ["first name"] * 5)
    monkeypatch.setattr(cells_module, "LONGEST_WHOLE", 0)
    assert found == _found(_finder(0.8), 0.8, given, ["first name"] * 5)
    assert sorted(found) == [0, 1, 2]


@pytest.mark.parametrize("label", ["version", "APP_VERSION", "osVersion", "kernel", "firmware", "Release"])
def test_a_version_under_its_label_is_no_address(label: str) -> None:
    assert _found(_finder(0.8), 0.8, ["2.11.0.14", "v5.15.0.91"], [label] * 2) == {}


def test_an_address_under_another_label_is_found() -> None:
    assert sorted(_found(_finder(0.8), 0.8, ["93.184.216.34", "2.11.0.14"], ["server", "diversion ip"])) == [0, 1]


@pytest.mark.parametrize(
    ("family", "given"),
    [("Apellidos", "Nombre"), ("Cognome", "Nome"), ("Apelido", "Nome"), ("Achternaam", "Naam"), ("Name", "Vorname")],
)
def test_a_name_beside_a_part_of_names_is_the_other_part(family: str, given: str) -> None:
    cells, labels = ["Carmona", "Lucía", "Neri", "Ana", "Soto", ""], [family, given] * 3
    assert sorted(_found(_finder(0.8), 0.8, cells, labels)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "labels",
    [
        ["nombre", "precio"],
        ["nombre cliente", "apellidos", "nombre"],
        ["apellidos", "nombre", "nombre"],
        ["first name", "last name", "name"],
        ["nombre", "ciudad"],
    ],
)
def test_a_name_that_is_no_part_of_one_may_be_that_of_a_thing(labels: list[str]) -> None:
    found = _found(_finder(0.8), 0.8, ["Mesa"] * len(labels), labels)
    assert labels.index("nombre" if "nombre" in labels else "name") not in found


@pytest.mark.parametrize("label", ["Población", "Residence", "Contact person", "Residencia", "Ansprechperson"])
def test_a_label_alone_tells_of_a_word(label: str) -> None:
    assert sorted(_found(_finder(0.8), 0.8, ["Ilkley"], [label])) == [0]


@pytest.mark.parametrize("label", ["DB_PASS", "userPw", "smtp.password", "REDIS_AUTH"])
def test_a_label_of_a_password_in_short_tells_of_a_secret(label: str) -> None:
    assert _found(_finder(0.8), 0.8, ["s3cr3tPa55"], [label])[0][0][2] == "SECRET"


@pytest.mark.parametrize("label", ["Volunteer", "Socio"])
def test_a_label_that_may_name_persons_tells_of_a_name_of_two_words(label: str) -> None:
    assert sorted(_found(_finder(0.8), 0.8, ["Jane Doe", "yes"], [label] * 2)) == [0]


def _searched(finder: Finder, text: str, label: str) -> list[Value]:
    return finder.find_values(text, PieceLabels([0, len(text) + 1], [plain_label(label)]))


def _found(finder: Finder, floor: float, cells: list[str], labels: list[str]) -> dict[int, list[Value]]:
    found = find_in_cells(finder, ENTITY_TYPES, floor, cells, labels)
    found.repeat()
    whole = {index: [(0, len(cells[index]), entity, score)] for index, (score, entity) in found.whole.items()}
    return whole | found.parts
