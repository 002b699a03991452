"""The tables of docs/contract.md say what the protos and the route table of the tests say."""

import re
from pathlib import Path

from tests.support.routes import ROUTES
from workflow_api.v1 import errors_pb2, event_data_pb2, runs_pb2

CONTRACT = (Path(__file__).parents[2] / "docs" / "contract.md").read_text()
CODE = re.compile(r"`([^`]+)`")


def rule(name: str) -> str:
    """Returns the text and the table of the rule with a name."""
    [found] = re.findall(
        rf"^- \*\*[0-9.]+ {re.escape(name)}\.\*\*(.*?)(?=^- \*\*|^## )", CONTRACT, re.MULTILINE | re.DOTALL
    )
    return str(found)


def table(name: str) -> list[list[str]]:
    """Returns the rows of a rule's table, each a list of cells, without the heading."""
    lines = [line.strip() for line in rule(name).splitlines() if line.strip().startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_routes_are_those_that_tests_call() -> None:
    written = {
        (method, CODE.findall(path)[0], scope.strip("`"), int(success[:3]))
        for method, path, scope, success in table("Routes")
    }
    words = {None: "any valid key", "": "no key"}
    assert written == {
        (route.method, route.template, words.get(route.scope, route.scope), route.success) for route in ROUTES
    }


def test_the_codes_are_those_of_the_protos_with_their_status_and_details() -> None:
    written = {
        code: (int(status), "list of `{name, reason}`" if details.startswith("list") else details)
        for status, codes, _, details in table("Codes")
        for code in CODE.findall(codes)
    }
    declared = {}
    for value in errors_pb2.ErrorReason.DESCRIPTOR.values:
        for _, rules in value.GetOptions().ListFields():
            code = value.name.removeprefix("ERROR_REASON_").lower()
            declared[code] = rules.http_status, rules.problem_list, [detail.name for detail in rules.details]
    assert set(written) == set(declared)
    for code, (status, problem_list, details) in declared.items():
        assert written[code][0] == status, code
        assert written[code][1].startswith("list of") == problem_list, code
        assert bool(CODE.findall(written[code][1])) == bool(details or problem_list), code
        assert [name for name in details if not re.search(rf"\b{name}\b", written[code][1])] == [], code


def test_the_statuses_of_a_run_and_of_a_step_are_those_of_the_protos() -> None:
    statuses = [name.removeprefix("RUN_STATUS_").lower() for name in runs_pb2.RunStatus.keys()[1:]]
    assert [CODE.findall(row[0])[0] for row in table("Statuses of a run")] == statuses
    statuses = [name.removeprefix("STEP_STATUS_").lower() for name in runs_pb2.StepStatus.keys()[1:]]
    assert CODE.findall(rule("Statuses of a step")) == statuses


def test_the_types_of_events_are_those_of_the_protos() -> None:
    written = [name for types, _ in table("Types of events") for name in CODE.findall(types)]
    declared = {field.name.replace("_", ".", 1) for field in event_data_pb2.EventData.DESCRIPTOR.fields}
    assert len(written) == len(set(written))
    assert set(written) == declared
