"""Jobs that somebody does without a manual, each from the sign-in on."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NewPerson
from tests.support.service import Service
from workflow_api.v1.users_pb2 import ROLE_APPROVER, ROLE_OPERATOR, ROLE_VIEWER

FLOWS = """\
kind: Agent
name: job-breaks
type: python
code: |
  def run(context):
      raise ValueError("the ledger has no rows")
---
kind: Workflow
name: Job of the night
status: active
steps: [{step: read, agent: job-breaks}]
---
kind: Workflow
name: Job by the clock
status: active
steps: [{step: read, agent: job-breaks}]
schedules: [{name: nightly, cron: "0 3 * * *"}]
---
kind: Workflow
name: Job with a gate
status: active
steps: [{step: gate, approval: {title: May it go out?}}]
"""


@pytest.fixture(scope="module")
def workflows(console: Service) -> dict[str, str]:
    return console.admin.apply(FLOWS)


def test_why_a_run_failed_is_two_clicks_from_the_sign_in(
    console: Service, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    run_id = console.new_caller().finished(workflows["Job of the night"])["run_id"]
    screen = signed_in("night-shift", ROLE_VIEWER)
    screen.open("/")
    page = screen.page
    failed = page.get_by_role("region", name="Failed")
    expect(failed.get_by_text("the ledger has no rows").first).to_be_visible()
    failed.locator(f'a[href*="/runs/{run_id}"]').first.click()
    page.wait_for_url(f"**/runs/{run_id}*")
    expect(page.get_by_text("the ledger has no rows").first).to_be_visible()


def test_a_schedule_is_paused_and_resumed(console: Service, workflows: dict[str, str], signed_in: NewPerson) -> None:
    page = signed_in("clockmaker", ROLE_OPERATOR).page
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Schedules").click()
    row = page.get_by_role("row").filter(has_text="Job by the clock")
    row.get_by_role("button", name="Pause").click()
    expect(row.get_by_text("paused")).to_be_visible()
    row.get_by_role("button", name="Resume").click()
    expect(row.get_by_role("button", name="Pause")).to_be_visible()


def test_who_approved_a_run_is_on_its_page(console: Service, workflows: dict[str, str], signed_in: NewPerson) -> None:
    run_id = console.new_caller().started(workflows["Job with a gate"])
    screen = signed_in("job-gatekeeper", ROLE_APPROVER)
    screen.open(f"/runs/{run_id}")
    screen.page.get_by_role("button", name="Approve").first.click()
    expect(screen.page.get_by_text("completed").first).to_be_visible()
    screen.page.get_by_role("link", name=re.compile("^Events")).click()
    expect(screen.page.locator("main").get_by_text("job-gatekeeper").first).to_be_visible()
