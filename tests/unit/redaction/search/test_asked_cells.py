"""Cells that a model is asked about: their lines, and the way back from what it finds to the cells."""

from collections.abc import Collection, Sequence

import pytest

from redaction.entity_types import ENTITY_TYPES
from redaction.model import Column, Mention
from redaction.search.asked_cells import asked_values
from redaction.search.cells import find_in_cells
from redaction.search.finder import Finder


class Asked:
    """Model that finds the word `quote`, and keeps what it was asked."""

    def __init__(self, quote: str) -> None:
        self.quote = quote
        self.texts: list[str] = []
        self.columns: list[str] = []

    def __call__(self, text: str, _: Collection[str], columns: Sequence[Column]) -> list[Mention]:
        self.texts.append(text)
        self.columns += [text[column.start : column.end] for column in columns]
        return [Mention("PERSON", self.quote, 0.9)]


def values(ask: Asked, cells: list[str], labels: list[str]) -> dict[int, list[tuple[int, int, str, float]]]:
    return asked_values(Finder(ENTITY_TYPES, 0.8, ask), cells, labels, range(len(cells)))


def test_cells_of_a_column_stand_below_each_other_behind_its_name() -> None:
    ask = Asked("Doe")
    cells = ["Ann Roe", "Blue Lamp", "Max Doe", "Red Desk", "Li Wei", "Oak Shelf", "Ana Sol", "Big Mug", "a note"]
    labels = ["assigned_to", "item"] * 4 + ["note"]
    assert values(ask, cells, labels) == {2: [(4, 7, "PERSON", 0.9)]}
    assigned = "assigned to: Ann Roe\nassigned to: Max Doe\nassigned to: Li Wei\nassigned to: Ana Sol\n"
    items = "item: Blue Lamp\nitem: Red Desk\nitem: Oak Shelf\nitem: Big Mug\n"
    assert ask.columns == [assigned, items]
    assert ask.texts == [assigned + items + "note: a note\n"]


def test_what_is_found_in_a_label_is_no_value() -> None:
    assert values(Asked("Doe"), ["the Blue Lamp", "Jane\u200b Doe"], ["Doe", ""]) == {1: [(6, 9, "PERSON", 0.9)]}


def test_cells_that_hold_no_value_of_a_person_are_not_asked_about() -> None:
    ask = Asked("open")
    assert not values(ask, ["open", "SKU-88213", "2024-05-01", "4711", "USD", "12.50"], ["x"] * 6)
    assert ask.texts == []


def test_a_value_of_a_rule_keeps_its_type_whatever_a_model_says() -> None:
    def ask(text: str, _: Collection[str], __: Sequence[Column]) -> list[Mention]:
        return [Mention("US_SSN", "390.533.447-05 Roe", 0.95)] if "Roe" in text else []

    engine = Finder(ENTITY_TYPES, 0.8, ask)
    categories = frozenset(ENTITY_TYPES)
    text = "CPF 390.533.447-05 Roe"
    assert [match.entity for match in engine.find(text)] == ["BR_CPF"]
    assert [value[2] for value in find_in_cells(engine, categories, 0.8, [text], [""]).parts[0]] == ["BR_CPF"]


def test_names_of_columns_and_keys_are_not_asked_about() -> None:
    ask = Asked("Doe")
    cells = ["Stage", "Ort", "Jane Doe", "Stage"]
    assert values(ask, cells, ["", "", "Stage", "note"]) == {2: [(5, 8, "PERSON", 0.9)]}
    assert ask.texts == ["Stage: Jane Doe\nnote: Stage\n"]


def test_a_first_row_of_data_is_asked_about() -> None:
    cells = ["Jane Doe", "jane@roe.co", "Ann Lee", "ann@roe.co"]
    assert 0 in values(Asked("Doe"), cells, ["", "", "Jane Doe", "jane@roe.co"])


def test_what_is_of_no_person_by_its_label_is_not_asked_about() -> None:
    ask = Asked("Oak")
    assert not values(ask, ["Oak Table", "On Hold"], ["product", "Status"])
    assert ask.texts == []


@pytest.mark.parametrize(
    "label", ["marque", "Hersteller", "job_role", "fournisseur", "fallback font", "application nom", "Dział", "site"]
)
def test_cells_under_a_label_of_things_are_not_asked_about(label: str) -> None:
    ask = Asked("Doe")
    assert not values(ask, ["Max Doe"], [label])
    assert ask.texts == []


@pytest.mark.parametrize("label", ["brand manager", "responsable rayon", "department head", "customer site"])
def test_cells_under_a_label_of_people_are_asked_about_whatever_else_it_names(label: str) -> None:
    assert values(Asked("Doe"), ["Max Doe"], [label]) == {0: [(4, 7, "PERSON", 0.9)]}


def test_descriptions_are_asked_about_where_no_quantity_or_price_stands_beside_them() -> None:
    assert values(Asked("Doe"), ["Max Doe", "open"], ["description", "status"]) == {0: [(4, 7, "PERSON", 0.9)]}
    assert not values(Asked("Doe"), ["Max Doe", "4"], ["description", "quantity"])
