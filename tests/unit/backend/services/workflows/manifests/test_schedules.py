"""Schedules in manifests: every mistake with its line, and what is allowed."""

import pytest

from backend.services.workflows.manifests.loader import check_manifests
from tests.support.content_checks import UNBOUNDED

HEAD = """kind: Workflow
name: Timed
parameters:
  - {name: region, type: string, enum: [EU, US], required: true}
steps: []
schedules:
"""


def problems(schedules: str) -> list[tuple[str, str]]:
    return check_manifests([("flow.yaml", HEAD + schedules)], UNBOUNDED).problems


def test_a_schedule_has_defaults_and_short_forms_are_spelled_out() -> None:
    loaded = check_manifests(
        [("flow.yaml", HEAD + '  - {name: n, cron: "@daily", parameters: {region: EU}}')], UNBOUNDED
    )
    assert loaded.problems == []
    assert (
        '"schedules":[{"catch_up":"none","cron":"0 0 * * *","name":"n","overlap":"skip",'
        '"parameters":{"region":"EU"},"paused":false,"timezone":"UTC"}]'
    ) in loaded.manifests[0].definition


def test_every_mistake_of_a_schedule_is_told_with_its_line_and_what_is_allowed() -> None:
    found = dict(
        problems(
            """  - name: nightly
    cron: 61 25 * * *
    timezone: Mars/Olympus
    overlap: never
    catch_up: all
    parameters: {region: XX, colour: red}
  - name: nightly
    cron: "0 0 31 2 *"
    every: day
    parameters: {}
"""
        )
    )
    assert set(found) == {
        "flow.yaml:8: schedules[0].cron",
        "flow.yaml:9: schedules[0].timezone",
        "flow.yaml:10: schedules[0].overlap",
        "flow.yaml:11: schedules[0].catch_up",
        "flow.yaml:12: schedules[0].parameters.region",
        "flow.yaml:12: schedules[0].parameters.colour",
        "flow.yaml:13: schedules[1].name",
        "flow.yaml:14: schedules[1].cron",
        "flow.yaml:15: schedules[1].every",
        "flow.yaml:16: schedules[1].parameters",
    }
    cron = found["flow.yaml:8: schedules[0].cron"]
    assert "the minute must be of 0 to 59" in cron
    assert "the hour must be of 0 to 23" in cron
    assert "IANA" in found["flow.yaml:9: schedules[0].timezone"]
    assert "skip, queue, allow" in found["flow.yaml:10: schedules[0].overlap"]
    assert "none, latest" in found["flow.yaml:11: schedules[0].catch_up"]
    assert "region" in found["flow.yaml:12: schedules[0].parameters.colour"]
    assert "region" in found["flow.yaml:16: schedules[1].parameters"]


@pytest.mark.parametrize(
    "cron", ["", "* * * *", "0 0 0 * * *", "@reboot", "5L * * * *", "* * * * 5L/2", "x", "*/0 * * * *"]
)
def test_an_expression_that_is_none_is_refused(cron: str) -> None:
    (found,) = problems(f'  - {{name: n, cron: "{cron}", parameters: {{region: EU}}}}')
    assert found[0] == "flow.yaml:7: schedules[0].cron"
    assert "must" in found[1]
