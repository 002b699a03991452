import json
from pathlib import Path

import pytest
import typer

from deploy.cli.run_inputs import read_parameters, text_or_file
from deploy.failures import CommandError

DECLARED = [
    {"name": "count", "type": "integer"},
    {"name": "share", "type": "number"},
    {"name": "strict", "type": "boolean"},
    {"name": "rates", "type": "json"},
    {"name": "day", "type": "date"},
    {"name": "title", "type": "string"},
]


def test_a_parameter_is_read_as_the_type_that_is_declared(tmp_path: Path) -> None:
    file = tmp_path / "day.txt"
    file.write_text("2026-09-24\n")
    given = ["count=07", "share=0.10", "strict=false", 'rates={"USD": 0.92}', f"day=@{file}", "title=7", "other=1"]
    assert json.loads(read_parameters(given, DECLARED)) == {
        "count": 7,
        "share": 0.1,
        "strict": False,
        "rates": {"USD": 0.92},
        "day": "2026-09-24",
        "title": "7",
        "other": "1",
    }


def test_json_is_sent_exactly_as_it_is_written() -> None:
    assert read_parameters(["rates=1.000000000000000000001"], DECLARED) == '{"rates":1.000000000000000000001}'


@pytest.mark.parametrize("text", ['{"a":1,"a":2}', '[{"b":{"a":1,"c":[],"a":1}}]'])
def test_json_in_which_an_object_has_a_name_twice_is_refused(text: str) -> None:
    with pytest.raises(CommandError, match="cannot be read") as failed:
        read_parameters([f"rates={text}"], DECLARED)
    assert "--param rates: must be JSON in which no object has the name 'a' twice" in failed.value.to_text()


def test_every_parameter_that_cannot_be_read_is_named() -> None:
    with pytest.raises(CommandError) as failed:
        read_parameters(["count=1.5", "strict=yes", "share=true", "rates={", "title=x"], DECLARED)
    assert failed.value.to_text().splitlines() == [
        "--param count: must be a whole number, not '1.5'",
        "--param strict: must be true or false, not 'yes'",
        "--param share: must be a number, not 'true'",
        "--param rates: must be JSON, not '{'",
    ]


@pytest.mark.parametrize("number", ["1e400", "-1e400", "NaN", "Infinity"])
def test_a_number_that_json_cannot_hold_is_refused_with_the_name_of_its_parameter(number: str) -> None:
    with pytest.raises(CommandError) as failed:
        read_parameters([f"share={number}", f'rates={{"USD": [{number}]}}'], DECLARED)
    assert [line.partition(":")[0] for line in failed.value.to_text().splitlines()] == [
        "--param share",
        "--param rates",
    ]


@pytest.mark.parametrize("given", [["title"], ["=x"], ["title=a", "title=b"], ["title=@/no/such/file"]])
def test_a_parameter_of_another_form_is_refused(given: list[str]) -> None:
    with pytest.raises(typer.BadParameter):
        read_parameters(given, DECLARED)


def test_text_that_begins_with_an_at_sign_is_written_with_two() -> None:
    assert text_or_file("--input-text", "@@home") == "@home"
