"""Variables are inserted into text fields; a mistake in one is reported with line, column and the known names."""

import json
from typing import Any

import pytest

from backend.services.workflows.manifests import variables
from backend.services.workflows.manifests.loader import LoadedManifests, check_manifests
from backend.services.workflows.manifests.variables import VariableValue, variable_problems
from backend.services.workflows.manifests.writer import manifest_text
from tests.support.content_checks import UNBOUNDED

WORKFLOW = "kind: Workflow\nname: w\nsteps: []\n"


def loaded(text: str, **values: str | VariableValue) -> LoadedManifests:
    given = {name: VariableValue(each) if isinstance(each, str) else each for name, each in values.items()}
    return check_manifests([("f", text)], UNBOUNDED, given)


def definition(text: str, **values: str | VariableValue) -> dict[str, Any]:
    found = loaded(text, **values)
    assert found.problems == []
    value: dict[str, Any] = json.loads(found.manifests[0].definition)
    return value


def test_a_value_is_inserted_as_it_is_written_wherever_text_names_it() -> None:
    text = 'kind: Workflow\nname: "a ${vars.N} b"\ndescription: |\n  ${vars.N}${vars.M}\nsteps: []\n'
    found = definition(text, N="1.10", M="yes")
    assert (found["name"], found["description"]) == ("a 1.10 b", "1.10yes\n")


def test_an_escaped_reference_is_text() -> None:
    assert definition(WORKFLOW + 'description: "$${vars.N} costs $5"\n')["description"] == "${vars.N} costs $5"


def test_an_inserted_value_is_not_searched_for_variables() -> None:
    assert definition(WORKFLOW + "description: ${vars.A}\n", A="${vars.B}")["description"] == "${vars.B}"


@pytest.mark.parametrize("written", ["${vars.SECONDS}", '"${vars.SECONDS}"', "'${vars.SECONDS}'"])
def test_a_whole_field_that_takes_no_text_gets_the_value_with_its_type(written: str) -> None:
    text = f"kind: Environment\nname: e\ntimeout_seconds: {written}\n"
    assert definition(text, SECONDS="30")["timeout_seconds"] == 30


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (VariableValue("5"), 5),
        (VariableValue("true"), True),
        (VariableValue("0.5"), 0.5),
        (VariableValue("5", quoted=True), "5"),
        (VariableValue("null"), "null"),
        (VariableValue("five"), "five"),
    ],
)
def test_a_field_of_any_type_takes_the_value_with_its_type(value: VariableValue, expected: Any) -> None:
    found = definition(WORKFLOW + "parameters: [{name: p, type: json, default: '${vars.P}'}]\n", P=value)
    default = found["parameters"][0]["default"]
    assert (default, type(default)) == (expected, type(expected))


def test_a_text_in_a_field_that_takes_none_is_refused_with_the_field() -> None:
    text = "kind: Environment\nname: e\ntimeout_seconds: ${vars.SECONDS}\n"
    for value in (VariableValue("30", quoted=True), VariableValue("30s"), VariableValue("9" * 40)):
        ((place, reason),) = loaded(text, SECONDS=value).problems
        assert place == "f:3: timeout_seconds"
        assert "must be an integer from 1 to 900" in reason


def test_an_unknown_variable_is_refused_with_line_column_and_the_known_names() -> None:
    text = "kind: Workflow\nname: w\ndescription: |\n  é first\n  in ${vars.REGIN} now\nsteps: []\n"
    ((place, reason),) = loaded(text, REGION="eu", SIZE="1").problems
    assert place == "f:5: description"
    assert reason == "uses the variable REGIN, which is not given (given are: REGION, SIZE), at column 6"
    ((_, reason),) = loaded(text).problems
    assert "no variable is given" in reason


@pytest.mark.parametrize("start", ["", "\ufeff"])
@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("kind: Workflow\nname: ü ${vars.X}\nsteps: []\n", 2, 9),
        ('kind: Workflow\nname: "a ${vars.X}"\nsteps: []\n', 2, 10),
        ("kind: Workflow\nname: w\nsteps: [{step: '${vars.X}', approval: {title: t}}]\n", 3, 17),
        ('kind: Workflow\nname: "\\u0024{vars.X}"\nsteps: []\n', 2, 7),
        ("kind: Workflow\nname: w\ndescription: >\n  a\n\n  b ${vars.X}\nsteps: []\n", 6, 5),
    ],
)
def test_the_place_of_a_variable_is_that_in_the_file(start: str, text: str, line: int, column: int) -> None:
    ((place, reason),) = loaded(start + text).problems
    assert place.startswith(f"f:{line}: ")
    assert reason.endswith(f", at column {column}")


@pytest.mark.parametrize(
    "reference", ["${vars.}", "${vars.1a}", "${vars.a-b}", "${vars.A:-b}", "${vars.A", "${vars. A}"]
)
def test_a_malformed_reference_is_refused(reference: str) -> None:
    ((place, reason),) = loaded(WORKFLOW + f"description: '{reference}'\n", A="1", a="2", b="3").problems
    assert place == "f:4: description"
    assert "must name a variable as ${vars.NAME}" in reason


def test_code_and_requirements_are_left_as_they_are() -> None:
    code = "def run(context): return '${vars.NONE}'"
    assert definition(f'kind: Agent\nname: a\ntype: python\ncode: "{code}"\n')["code"] == code
    text = "kind: Environment\nname: e\npython: {packages: ['${vars.NONE}']}\n"
    ((place, reason),) = loaded(text).problems
    assert place == "f:3: python.packages[0]"
    assert "must be a requirement" in reason


def test_a_variable_may_stand_for_the_kind_and_code_stays_as_it_is() -> None:
    text = "kind: ${vars.KIND}\nname: a\ntype: python\ncode: \"def run(context): return '${vars.NONE}'\"\n"
    assert "${vars.NONE}" in definition(text, KIND="Agent")["code"]


def test_an_alias_has_the_value_of_its_anchor() -> None:
    text = "kind: Workflow\nname: &n '${vars.N}'\ndescription: *n\nsteps: []\n"
    assert definition(text, N="x")["description"] == "x"


def test_references_between_documents_are_compared_after_insertion() -> None:
    text = (
        "kind: Agent\nname: count-${vars.S}\ntype: python\ncode: 'def run(context): pass'\n---\n"
        "kind: Workflow\nname: w\nsteps: [{step: a, agent: count-eu}]\n"
    )
    assert loaded(text, S="eu").missing == []


def test_only_used_variables_belong_to_a_document() -> None:
    found = loaded(WORKFLOW + "description: ${vars.A}\n---\nkind: Environment\nname: e\n", A="1", B="2")
    workflow, environment = found.manifests
    assert (dict(workflow.variables), dict(environment.variables)) == ({"A": VariableValue("1")}, {})
    assert found.used == {"A"}


def test_what_variables_insert_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variables, "MOST_INSERTED", 100)
    text = WORKFLOW + f"description: '{'${vars.A}' * 20}'\n"
    assert definition(text, A="12345")["description"] == "12345" * 20
    ((place, reason),) = loaded(text, A="123456").problems
    assert place == "f:4: description"
    assert "must not take more than 100 characters" in reason


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"1a": "x"}, "must have a name of 1 to 64 letters"),
        ({"a-b": "x"}, "must have a name of 1 to 64 letters"),
        ({"a" * 65: "x"}, "must have a name of 1 to 64 letters"),
        ({"a": "x" * 4_097}, "must have at most 4,096 characters; it has 4,097"),
        ({"a": "x\0"}, "must not contain U+0000"),
        ({f"a{number}": "" for number in range(257)}, "must be at most 256; there are 257"),
        ({f"a{number}": "x" * 4_096 for number in range(17)}, "must have at most 65,536 characters together"),
    ],
)
def test_names_and_values_are_bounded(given: dict[str, str], reason: str) -> None:
    ((_, told),) = variable_problems({name: VariableValue(text) for name, text in given.items()})
    assert reason in told
    assert loaded(WORKFLOW, **given).problems == variable_problems(
        {name: VariableValue(text) for name, text in given.items()}
    )


@pytest.mark.parametrize("text", ["${vars.A}", "$${vars.A}", "$$${vars.A} ${vars.", "${var.A}"])
def test_a_definition_written_as_a_manifest_reads_as_the_same(text: str) -> None:
    stored = definition(WORKFLOW + "description: ${vars.D}\n", D=text)
    assert stored["description"] == text
    assert definition(manifest_text("Workflow", stored)) == stored


def test_code_written_as_a_manifest_reads_as_the_same() -> None:
    text = "kind: Agent\nname: a\ntype: python\ncode: \"def run(context): return '${vars.NONE}'\"\n"
    stored = definition(text)
    assert definition(manifest_text("Agent", stored)) == stored


def test_a_text_of_mistakes_alone_has_a_bounded_number_of_problems() -> None:
    found = loaded(WORKFLOW + f"description: {'${vars.N}' * 2_000}\n")
    assert len(found.problems) == 20
    assert all(place == "f:4: description" for place, _ in found.problems)
