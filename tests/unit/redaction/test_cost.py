"""Cost of sweeps in function calls, which is the same on every machine under every load."""

from typing import Any

import pytest

from redaction.entity_types import ENTITY_TYPES
from redaction.formats.csv_text import sweep_csv
from redaction.search.finder import Finder
from redaction.sweep import Sweep
from tests.fuzz.slow_texts import CALLS_A_CHARACTER, SIZE, engine
from tests.support.redaction.hostile import UNITS, hostile
from tests.support.work import calls_of


@pytest.mark.parametrize("confidence", CALLS_A_CHARACTER)
def test_a_hostile_text_calls_few_functions_a_character(confidence: float) -> None:
    calls = {unit: _calls(confidence, hostile(unit, SIZE)) / SIZE for unit in UNITS}
    assert {unit: count for unit, count in calls.items() if count > CALLS_A_CHARACTER[confidence]} == {}


@pytest.mark.parametrize(
    "table",
    ["a,b,c\n" + "1,2,3\n" * 700, "a,b,c\n" + ",,\n" * 1_400, "," * SIZE, "first name,last name\n" + "a,b\n" * 1_000],
    ids=["digits", "empty", "separators", "names"],
)
def test_a_table_of_short_cells_calls_few_functions_a_character(table: str) -> None:
    sweep = Sweep(Finder(ENTITY_TYPES, 0.8), ENTITY_TYPES, 0.8, redacts=True)
    list(sweep_csv([table], sweep.cells))
    assert calls_of(lambda: list(sweep_csv([table], sweep.cells))) < 6 * len(table)


@pytest.mark.parametrize("unit", UNITS[:16], ids=range(16))
def test_a_text_twice_as_long_costs_twice_as_much(unit: str) -> None:
    half = _calls(0.8, hostile(unit, 10_000))
    assert _calls(0.8, hostile(unit, 20_000)) < 2.4 * half


@pytest.mark.parametrize(
    "make",
    [
        lambda size: ["ab"] * size,
        lambda size: [{"ssn": "123456789"}] * size,
        lambda size: [{f"key {number}": "a1b2c3"} for number in range(size)],
        lambda size: {f"ssn {number}": 123456789 for number in range(size)},
        lambda size: [[[number]] for number in range(size)],
        lambda size: {"k" * size: 1},
        lambda size: "phone 2 " * size,
    ],
    ids=["strings", "labelled", "keys", "telling-keys", "nested", "huge-key", "string"],
)
def test_a_value_twice_as_large_costs_twice_as_much(make: Any) -> None:
    one = engine(0.8)
    one.value(make(10))
    half = calls_of(lambda: one.value(make(1_000)))
    whole = calls_of(lambda: one.value(make(2_000)))
    assert whole < 2.2 * half


def test_names_that_become_the_same_cost_each_the_same() -> None:
    names = [f"{number}/jane{number}@example.org.csv" for number in range(600)]
    same = [f"jane{number}@example.org.csv" for number in range(600)]
    apart = calls_of(lambda: [engine(0.8).name(name) for name in names])
    assert calls_of(lambda: [engine(0.8).name(name) for name in same]) < 1.5 * apart


def _calls(confidence: float, text: str) -> int:
    # A first sweep compiles the rules, which is not counted.
    engine(confidence).text(text[:1_000])
    return calls_of(lambda: engine(confidence).text(text))
