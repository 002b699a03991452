"""Every mistake in how a workflow branches, fans out and ends is told, each at its line."""

import pytest

from backend.services.workflows.manifests.loader import check_manifests
from tests.support.content_checks import UNBOUNDED

HEAD = """\
kind: Workflow
name: Flow
parameters: [{name: region, type: string, default: EU}]
steps:
  - {step: first, agent: a}
"""


def problems(text: str) -> list[tuple[str, str]]:
    found = check_manifests([("flow.yaml", HEAD + text)], UNBOUNDED).problems
    return [(place.removeprefix("flow.yaml:"), reason.partition("; it is ")[0]) for place, reason in found]


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("accept: [completed], agent: a", "accept", "must not be there without needs"),
        ("max_items: 3, agent: a", "max_items", "must not be there without for_each"),
        ("max_parallel: 3, agent: a", "max_parallel", "must not be there without for_each"),
        ("on_item_failure: fail, agent: a", "on_item_failure", "must not be there without for_each"),
        ("version: 3, agent: a", "version", "must not be there without workflow"),
        ("parameters: {a: 1}, agent: a", "parameters", "must not be there without workflow"),
        (
            "workflow: Other, agent: a",
            "workflow",
            "must not be there beside agent: a step has one of agent, approval, workflow",
        ),
        ("workflow: Flow", "workflow", "must name another workflow: it would start itself for ever"),
        (
            "workflow: Other, retry: {attempts: 2}",
            "retry",
            "must not be there beside workflow, whose steps have their own",
        ),
        (
            "approval: {title: Go?}, for_each: '[1]'",
            "for_each",
            "must not be there beside approval: one person decides once",
        ),
        ("agent: a, accept: [blocked]", "accept[0]", "must be one of: completed, failed, skipped"),
        ("agent: a, for_each: '[1]', max_items: 1001", "max_items", "must be an integer from 1 to 1,000"),
        (
            "agent: a, when: needs.first.total > 1",
            "when",
            "must be a CEL expression: column 12: the step does not need 'first': none",
        ),
        (
            "agent: a, needs: [first], for_each: parameters.region",
            "for_each",
            "must give a list, and gives text",
        ),
        (
            "workflow: Other, parameters: {a: '=needs.x', b: '=item'}",
            "parameters.a",
            "must be a CEL expression: column 6: the step does not need 'x': none",
        ),
    ],
)
def test_a_mistake_in_a_step_is_told_at_its_field(text: str, place: str, reason: str) -> None:
    assert (f"6: steps[1].{place}", reason) in problems(f"  - {{step: second, {text}}}\n")


def test_handles_of_last_steps_are_unique_and_count_among_the_twenty() -> None:
    assert problems("always: [{step: first, agent: a}]\n") == [
        ("6: always[0].step", "must be unique within the workflow; first is there twice")
    ]
    last = "".join(f"  - {{step: l{index}, agent: a}}\n" for index in range(20))
    assert problems(f"on_failure:\n{last}") == [
        ("5: steps", "must have at most 20 with those of on_failure and always; there are 21")
    ]


def test_a_last_step_is_the_work_of_an_agent() -> None:
    (problem,) = problems("on_failure: [{step: last, approval: {title: Go?}}]\n")
    assert problem[0] == "6: on_failure[0].approval"


def test_the_agents_and_environments_of_last_steps_are_references() -> None:
    text = f"{HEAD}always: [{{step: last, agent: other, environment: big}}]\n"
    missing = [reason for _, reason in check_manifests([("flow.yaml", text)], UNBOUNDED).missing]
    assert [reason.rpartition("no file has ")[2] for reason in missing] == ["'a'", "'other'", "'big'"]


def test_an_item_is_seen_by_the_parameters_of_a_child_of_a_fan_out_alone() -> None:
    step = "{step: second, workflow: Other, needs: [first], for_each: needs.first, parameters: {a: '=item'}}"
    assert problems(f"  - {step}\n") == []
