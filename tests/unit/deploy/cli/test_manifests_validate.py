"""`workflow-api validate` checks manifests without a server."""

import json
from pathlib import Path

import pytest

from tests.unit.deploy.fake_backend import command

WORKFLOW = "kind: Workflow\nname: w\nsteps: [{step: a, approval: {title: t}, environment: large}]\n"
EXAMPLES = Path(__file__).parents[4] / "examples"


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_every_problem_of_every_file_is_printed(tmp_path: Path) -> None:
    flow = write(tmp_path, "flow.yaml", WORKFLOW)
    schema = "{type: object, properties: {a: {$ref: '#'}}}"
    agent = f"kind: Agent\nname: a\ntype: llm\nmodel: openai:m\ninstructions: i\noutput_schema: {schema}\nfoo: 1\n"
    refused = command("validate", flow, write(tmp_path, "agent.yaml", agent))
    assert refused.code == 1
    first, second, third = refused.err.splitlines()
    assert first == f"{flow}:3: steps[0].environment: must name a document of kind Environment; no file has 'large'"
    assert second.startswith(f"{tmp_path}/agent.yaml:6: output_schema: ")
    assert third.startswith(f"{tmp_path}/agent.yaml:7: foo: is not a known field")


def test_a_file_that_cannot_be_read_hides_no_problem_of_the_others(tmp_path: Path) -> None:
    flow = write(tmp_path, "flow.yaml", WORKFLOW + "foo: 1\n")
    refused = command("validate", f"{tmp_path}/none.yaml", flow)
    assert refused.code == 1
    unreadable, unknown = refused.err.splitlines()
    assert unreadable == f"{tmp_path}/none.yaml: cannot be read: No such file or directory"
    assert unknown.startswith(f"{flow}:4: foo: is not a known field")


def test_problems_are_json_for_machines(tmp_path: Path) -> None:
    refused = command("validate", write(tmp_path, "flow.yaml", "kind: Agent\ntype: python\ncode: run = 1\n"), "--json")
    assert refused.code == 1
    assert refused.error["details"] == [{"name": f"{tmp_path}/flow.yaml:1: name", "reason": "is required"}]


def test_names_that_no_file_has_may_be_allowed(tmp_path: Path) -> None:
    flow = write(tmp_path, "flow.yaml", WORKFLOW)
    accepted = command("validate", flow, "--allow-missing")
    assert accepted.code == 0
    assert accepted.out.splitlines()[1].startswith(f"  {flow}:3: steps[0].environment: ")
    listed = command("validate", flow, "--allow-missing", "--json").json
    assert listed["items"] == [{"kind": "Workflow", "name": "w", "file": flow, "line": 1}]
    assert [each["name"] for each in listed["missing"]] == [f"{flow}:3: steps[0].environment"]


def test_what_keeps_a_workflow_from_being_ready_is_accepted_as_by_apply_and_told(tmp_path: Path) -> None:
    steps = "steps:\n- {step: a}\n- {step: b, approval: {title: t}}\n"
    flow = write(tmp_path, "flow.yaml", "kind: Workflow\nname: w\n" + steps)
    empty = write(tmp_path, "empty.yaml", "kind: Workflow\nname: e\n")
    lacking = [
        (f"{flow}:4: steps[0].agent", "is missing, and the step needs one to run"),
        (f"{empty}:1: steps", "has none, and needs at least one to run"),
    ]

    accepted = command("validate", flow, empty)

    assert accepted.code == 0
    assert accepted.out.splitlines() == [
        "Not ready:",
        *(f"  {place}: {reason}" for place, reason in lacking),
        "2 documents checked: no problem found.",
    ]
    listed = command("validate", flow, empty, "--json").json
    assert listed["not_ready"] == [{"name": place, "reason": reason} for place, reason in lacking]
    assert listed["missing"] == []


def test_the_examples_are_valid() -> None:
    checked = command("validate", *map(str, sorted(EXAMPLES.rglob("*.yaml"))))
    assert (checked.code, checked.err) == (0, "")


@pytest.mark.parametrize("arguments", [("schema", "manifest"), ("schema", "manifest", "--json")])
def test_the_schema_of_manifests_is_printed(arguments: tuple[str, ...]) -> None:
    printed = json.loads(command(*arguments).out)
    assert printed["$schema"] == "https://json-schema.org/draft/2020-12/schema"


VARIABLES = """
kind: Agent
name: a-${vars.STAGE}
type: python
code_file: ${vars.STAGE}.py
---
kind: Workflow
name: w
steps: [{step: a, agent: "a-${vars.STAGE}"}]
"""


def test_values_of_variables_come_from_files_and_options(tmp_path: Path) -> None:
    flow = write(tmp_path, "flow.yaml", VARIABLES)
    write(tmp_path, "test.py", "def run(context): pass\n")
    values = write(tmp_path, "stage.yaml", "STAGE: production\nOTHER: 1\n")
    accepted = command("validate", flow, "--vars", values, "--var", "STAGE=test")
    assert (accepted.code, accepted.err) == (0, "")
    refused = command("validate", flow, "--vars", values)
    assert refused.code == 1
    assert refused.err.startswith(f"{flow}:5: code_file: production.py cannot be read")


def test_an_unknown_variable_is_refused_with_its_place(tmp_path: Path) -> None:
    flow = write(tmp_path, "flow.yaml", VARIABLES)
    refused = command("validate", flow, "--var", "STAG=test")
    assert refused.code == 1
    assert refused.err.splitlines()[0] == (
        f"{flow}:3: name: uses the variable STAGE, which is not given (given are: STAG), at column 9"
    )


def test_an_option_whose_variable_no_manifest_uses_is_a_warning(tmp_path: Path) -> None:
    flow = write(tmp_path, "flow.yaml", "kind: Workflow\nname: w\nsteps: []\n")
    values = write(tmp_path, "stage.yaml", "OTHER: 1\n")
    accepted = command("validate", flow, "--vars", values, "--var", "TYPO=x", "--json")
    assert accepted.code == 0
    assert accepted.err == "warning: --var TYPO: no manifest uses the variable TYPO\n"
    assert json.loads(accepted.out)["items"][0]["name"] == "w"


def test_mistakes_in_variables_are_reported_before_manifests_are_read(tmp_path: Path) -> None:
    values = write(tmp_path, "stage.yaml", "STAGE: [1]\n")
    refused = command("validate", f"{tmp_path}/none.yaml", "--vars", values)
    assert refused.code == 1
    assert refused.err.startswith(f"{values}:1: STAGE: must be a text, a number, true or false")
