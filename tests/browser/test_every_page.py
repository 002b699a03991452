"""Every page at every width and in both colour schemes: nothing is cut off, and axe-core has no finding."""

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from playwright.sync_api import Browser, Page

from console.run.tabs import TABS
from tests.browser.conftest import Screen, agree
from tests.browser.sweep import AXE_WIDTHS, Scheme, findings, wrong_in_both_schemes
from tests.support.service import Service
from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR, ROLE_VIEWER
from workflow_api.v1.webhooks_pb2 import CreateWebhookRequest
from workflow_api.v1.workflows_pb2 import WORKFLOW_STATUS_ACTIVE, UpdateWorkflowStatusRequest

MOST_BYTES = 100_000
PARTS = 4

RESOURCES = """
kind: Environment
name: of-every-page
python: {packages: [alpha]}
---
kind: Connector
name: inbox-of-every-page
type: s3
bucket: a-bucket-with-a-long-name-of-every-page
prefixes: [incoming/2026/documents/of/every/page/]
endpoint_url: http://127.0.0.1:9
secret: a-secret-that-no-setting-names
---
kind: KnowledgeGraph
name: graph-of-every-page
---
kind: Workflow
name: Timed of every page
steps: []
status: inactive
schedules:
  - {name: nightly-with-a-long-name-of-every-page, cron: "0 2 1,15 * MON-FRI", timezone: America/Argentina/Buenos_Aires}
  - {name: paused, cron: "@daily", paused: true}
"""


@pytest.fixture(scope="module")
def paths(console: Service) -> list[str]:
    """The addresses of every page, with something on it."""
    workflows = console.admin.apply_test_workflows()
    caller = console.new_caller(source_allow_list=("127.0.0.0/8", "2001:db8::/32"), hours=None)
    failed = caller.finished(workflows["Failure"])["run_id"]
    done = caller.finished(workflows["Echo"], input_text="words", client_reference="order-4711-of-the-warehouse")
    waiting = caller.parked(workflows["Gate"])["run_id"]
    approval = caller.get(f"/runs/{waiting}/approvals").json()["items"][0]["approval_id"]
    caller.get("/runs/nothing")
    console.admin.add_user("somebody", ROLE_VIEWER)
    tree = caller.finished(workflows["Tree"])["run_id"]
    echo = done["run_id"]
    again = caller.finished(workflows["Echo"], input_text="other words")["run_id"]
    decided = caller.parked(workflows["Park"])["run_id"]
    gate = caller.get(f"/runs/{decided}/approvals").json()["items"][0]["approval_id"]
    console.admin.decide(gate, approve=True, comment="as asked")
    outputs = caller.get(f"/runs/{tree}/outputs").json()["items"]
    webhook = console.admin.webhooks.CreateWebhook(
        CreateWebhookRequest(key_id=caller.key_id, url="https://example.org/hook")
    ).webhook.webhook_id
    timed = console.admin.apply(RESOURCES)["Timed of every page"]
    console.admin.workflows.UpdateWorkflowStatus(
        UpdateWorkflowStatusRequest(workflow=timed, status=WORKFLOW_STATUS_ACTIVE)
    )
    key = f"/keys/{caller.key_id}"
    workflow = f"/workflows/{workflows['Echo']}"
    counted = "kind: Agent\nname: counted\ntype: python\ncode: |\n  def run(context):\n      return {}\n"
    for number in range(2):
        console.admin.apply(counted.format(number))
    asked = f"route=POST+/workflows/%7Bworkflow_id%7D/runs&address=10.0.0.1&workflow_id={workflows['Echo']}"
    return [
        *(f"{key}/try?{asked}", "/usage?by=route", f"{key}/usage?by=status&from=2026-09-24&to=2026-09-25"),
        *("/", "/approvals", "/runs", "/workflows", "/keys", "/usage", "/deployment", "/people", "/audit"),
        *("/people/somebody/role", "/audit?q=nothing-of-this-kind", "/audit?action=user.added"),
        *("/resources", "/resources/environments", "/resources/connectors", "/resources/graphs"),
        *("/resources/environments/of-every-page", "/resources/connectors/inbox-of-every-page"),
        *("/resources/graphs/graph-of-every-page", "/resources/graphs/nothing"),
        *("/deployment/health", "/deployment/retention", "/resources/secrets", "/resources/sets"),
        *("/preferences", "/password", "/passkeys", "/passkeys/add", "/passkeys/codes", "/sign-in"),
        *("/help", "/help/console", "/help/agents", "/help/how-to/keys", "/help/nothing"),
        *("/search", "/search?q=echo", "/search?q=nothing-of-this-name", "/nothing"),
        *("/keys/new", key, f"{key}/usage", f"{key}/webhooks", f"{key}/rotate", "/runs?client_reference=none"),
        *(f"/runs/{failed}", f"/runs/{done['run_id']}", f"/runs/{waiting}", "/runs/run_nothing"),
        *(f"/runs/{tree}?tab={tab}" for tab in TABS[1:]),
        f"/runs/{decided}?tab=events",
        *(f"/runs/{tree}/outputs/{each['output_id']}" for each in outputs),
        *(f"/runs/{echo}/compare", f"/runs/{echo}/compare?with={again}", f"/runs/{echo}/logs/echo"),
        *(f"/workflows/{workflows[name]}/start" for name in ("Typed", "From a bucket")),
        *(f"/workflows/{workflows['Echo']}/start?run={echo}", "/approvals/history", f"{key}/webhooks/{webhook}"),
        *("/workflows/new", f"{workflow}/edit", f"{workflow}/versions", "/workflows/wf_nothing/edit"),
        *("/resources/connectors/new", "/resources/environments/of-every-page/edit"),
        *("/resources/graphs/graph-of-every-page/versions", "/search?q=every-page", "/signed-out"),
        *("/agents", "/agents/counted", "/agents/counted/edit?from=1", "/agents/counted/compare?before=1&after=2"),
        *(f"/approvals/{approval}", f"/workflows/{workflows['Two gates']}", "/schedules", f"/workflows/{timed}"),
    ]


@pytest.fixture(scope="module")
def several(console: Service) -> str:
    """The address of a gate at which two approvals wait."""
    workflow_id = console.admin.apply_test_workflows()["Park"]
    caller = console.new_caller()
    for _ in range(2):
        caller.parked(workflow_id)
    return f"ask@{workflow_id}"


@pytest.fixture(scope="module")
def visitor(console: Service, chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    screen = Screen(context.new_page(), console.ready["console"])
    name = "reader"
    password = console.admin.add_user(name, ROLE_ADMINISTRATOR)
    screen.open("/sign-in")
    screen.sign_in(name, password)
    screen.page.wait_for_url("**/password")
    screen.change_password(password, f"the password of {name}")
    screen.page.get_by_role("status").wait_for()
    yield screen.page
    context.close()


@pytest.mark.parametrize("part", range(PARTS))
def test_no_page_excludes_anybody_or_cuts_anything_off(
    console: Service, visitor: Page, paths: list[str], part: int
) -> None:
    wrong: dict[str, list[Any]] = {}
    for path in paths[part::PARTS]:
        response = visitor.goto(console.ready["console"].rstrip("/") + path)
        assert response is not None
        if len(response.body()) > MOST_BYTES:
            wrong[path] = [f"{len(response.body())} bytes"]
        wrong |= wrong_in_both_schemes(visitor, path)
    assert wrong == {}


def test_deciding_several_approvals_excludes_nobody(console: Service, visitor: Page, several: str) -> None:
    visitor.goto(f"{console.ready['console'].rstrip('/')}/approvals?gate={several}")
    for box in visitor.locator('.items input[type="checkbox"]').all():
        box.check()
    visitor.locator(".bar").get_by_role("button", name="Approve").click()
    visitor.get_by_role("button", name="Approve all of them").wait_for()
    assert wrong_in_both_schemes(visitor, "several") == {}


def test_changing_several_runs_excludes_nobody(console: Service, visitor: Page) -> None:
    workflows = console.admin.apply_test_workflows()
    caller = console.new_caller()
    caller.finished(workflows["Echo"])
    parked = caller.parked(workflows["Park"])["run_id"]
    visitor.goto(f"{console.ready['console'].rstrip('/')}/runs?q={parked}")
    visitor.get_by_label(f"Select run {parked}").check()
    visitor.get_by_role("button", name="Resume").click()
    visitor.get_by_role("heading", name="Left out").wait_for()
    assert wrong_in_both_schemes(visitor, "left out") == {}
    visitor.go_back()
    visitor.get_by_role("button", name="Cancel").click()
    visitor.get_by_role("button", name="Cancel this run").wait_for()
    assert wrong_in_both_schemes(visitor, "question") == {}
    agree(visitor)
    visitor.get_by_role("button", name="Cancel this run").click()
    visitor.get_by_role("link", name="Back to the runs").wait_for()
    assert wrong_in_both_schemes(visitor, "outcomes") == {}


@pytest.mark.parametrize("width", AXE_WIDTHS[:2])
def test_the_reference_of_the_api_excludes_nobody(console: Service, chromium: Browser, width: int) -> None:
    context = chromium.new_context(viewport={"width": width, "height": 800})
    page = context.new_page()
    host, port = console.address
    page.goto(f"http://{host}:{port}/docs")
    assert [findings(page, scheme) for scheme in get_args(Scheme)] == [[], []]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()
