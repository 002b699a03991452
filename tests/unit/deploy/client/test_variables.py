"""Values of variables from files and options."""

from pathlib import Path

import pytest

from backend.services.workflows.manifests.variables import VariableValue
from deploy.client.variables import read_variables
from deploy.failures import CommandError


def file_of(folder: Path, text: str) -> Path:
    path = folder / "stage.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("text", ["A: x\nB: 1.10\nC: true\nD: '5'\n", '{"A": "x", "B": 1.10, "C": true, "D": "5"}'])
def test_values_keep_their_spelling_and_their_type(tmp_path: Path, text: str) -> None:
    assert read_variables([file_of(tmp_path, text)], []).values == {
        "A": VariableValue("x", quoted=True),
        "B": VariableValue("1.10"),
        "C": VariableValue("true"),
        "D": VariableValue("5", quoted=True),
    }


def test_an_option_wins_over_files_and_a_later_file_over_an_earlier(tmp_path: Path) -> None:
    later = tmp_path / "later.yaml"
    later.write_text("A: 2\nB: 2\n")
    given = read_variables([file_of(tmp_path, "A: 1\nB: 1\nC: 1\n"), later], [("B", "3")])
    assert given.texts == {"A": "2", "B": "3", "C": "1"}
    assert given.unused(["A", "C"]) == ["B"]


def test_an_empty_file_has_no_variables(tmp_path: Path) -> None:
    assert read_variables([file_of(tmp_path, "# nothing yet\n")], []).values == {}


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("A: 1\nB: [1]\n", ":2: B", "must be a text, a number, true or false"),
        ("A: null\n", ":1: A", "must be a text, a number, true or false"),
        ("A: {b: 1}\n", ":1: A", "must be a text, a number, true or false"),
        ("- A\n", ":1: document", "must be a mapping of names to values"),
        ("A: 1\n---\nB: 1\n", ":3: document", "must be the only one"),
        ("A: 1\nA: 2\n", ":2: A", "must not be given twice"),
        ("A: 1\na-b: 2\n", ":2: a-b", "must have a name of 1 to 64 letters"),
        ("A: 'x\n", ":1: document", "must be YAML"),
        (f"A: 1\nB: {'x' * 4_097}\n", ":2: B", "must have at most 4,096 characters"),
    ],
)
def test_a_mistake_in_a_file_is_reported_with_its_line(tmp_path: Path, text: str, place: str, reason: str) -> None:
    file = file_of(tmp_path, text)
    with pytest.raises(CommandError) as refused:
        read_variables([file], [])
    (problem,) = refused.value.details
    assert problem["name"] == f"{file}{place}"
    assert reason in problem["reason"]


def test_every_mistake_of_files_and_options_is_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as refused:
        read_variables([tmp_path / "none.yaml", file_of(tmp_path, "A: []\n")], [("1", "x")])
    assert [each["name"] for each in refused.value.details] == [
        f"{tmp_path}/none.yaml",
        f"{tmp_path}/stage.yaml:1: A",
        "--var.1",
    ]
