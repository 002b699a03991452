"""Starting a run from the form in a real browser."""

import json
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import NewPerson, Screen
from tests.support.poll import until
from tests.support.service import Service
from workflow_api.v1.audit_pb2 import ListAuditRecordsRequest
from workflow_api.v1.pii_policy_pb2 import PII_MODE_DETECT
from workflow_api.v1.runs_pb2 import GetRunRequest
from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR

_LISTER = """
def run(context):
    return {path.relative_to(context.inputs).as_posix(): path.stat().st_size
            for path in sorted(context.inputs.rglob("*")) if path.is_file()}
"""
_KEEP_PROGRESS = """() => {
  const shown = () => document.querySelectorAll(".upload-progress");
  const keep = () => shown().forEach((each) => { sessionStorage.uploadProgress += each.textContent; });
  new MutationObserver(keep).observe(document.body, { childList: true, subtree: true, characterData: true });
}"""
_SEND_TWICE = """async () => {
  const form = document.querySelector("form.start");
  const send = () => fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) });
  return [(await send()).url, (await send()).url];
}"""


@pytest.fixture(scope="module")
def workflows(console: Service) -> dict[str, str]:
    return console.admin.apply_test_workflows()


def test_an_administrator_starts_a_run_from_the_form_and_again_from_its_inputs(
    console: Service, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    screen = signed_in("starter", ROLE_ADMINISTRATOR)
    page = screen.page
    screen.open(f"/workflows/{workflows['Typed']}")
    page.get_by_role("link", name="Start a run").click()
    page.get_by_label("word (required)").fill("alpha")
    page.get_by_label("number").fill("12")
    page.get_by_role("textbox", name="extra").fill('{"a": 1,\n "b" 2}')
    page.get_by_role("button", name="Start the run").click()
    expect(page.locator(".error")).to_contain_text("line 2, column 6")
    expect(page.locator(".place")).to_contain_text("^")

    page.get_by_role("textbox", name="extra").fill('{"a": 1}')
    page.get_by_label("loud").select_option("true")
    page.get_by_label("day").fill("2026-09-24")
    page.get_by_role("button", name="Start the run").click()
    expect(page.locator(".error")).to_contain_text("must be at most 9")

    page.get_by_label("number").fill("7")
    page.get_by_text("Text, reference and labels").click()
    page.get_by_label("Labels").fill("team=north")
    page.get_by_label("Labels").press("Tab")
    page.get_by_role("button", name="Start the run").click()
    expect(page.get_by_role("status")).to_have_text("The run has started.")
    expect(page.locator("#summary")).to_contain_text("completed")
    expect(page.locator("#tabs")).to_contain_text("Inputs")
    run_id = screen.path.removeprefix("/runs/")
    record = console.admin.audit.ListAuditRecords(ListAuditRecordsRequest(target=run_id)).items[0]
    assert (record.actor, record.action) == ("user:starter", "run.started")

    screen.open(f"/workflows/{workflows['Typed']}/start?run={run_id}")
    expect(page.get_by_label("number")).to_have_value("7")
    expect(page.get_by_role("textbox", name="extra")).to_have_value('{\n  "a": 1\n}')
    expect(page.get_by_label("Labels")).to_have_value("team=north")
    page.get_by_label("number").press("Enter")
    expect(page.get_by_role("status")).to_have_text("The run has started.")
    assert [text for text in screen.complaints if "400" not in text] == []


def test_a_run_of_an_earlier_version_is_started_with_the_fields_of_either(
    console: Service, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    manifest = """
kind: Workflow
name: Two versions
status: active
parameters:
  - {name: word, type: string}
  - {name: %s, type: string}
steps:
  - {step: echo, agent: echo, environment: standard}
result: {step: echo}
pii_policy: {mode: redact, categories: [EMAIL_ADDRESS], stages: [outputs]}
"""
    workflow_id = console.admin.apply(manifest % "old", "first.yaml")["Two versions"]
    caller = console.new_caller()
    run_id = caller.finished(workflow_id, parameters={"word": "alpha", "old": "beta"})["run_id"]
    console.admin.apply(manifest % "new", "second.yaml")
    screen = signed_in("versions", ROLE_ADMINISTRATOR)
    page = screen.page
    screen.open(f"/runs/{run_id}")
    page.get_by_role("link", name="Run again").click()
    expect(page.get_by_label("old")).to_have_value("beta")
    expect(page.get_by_label("With the PII policy of that run")).to_be_checked()
    page.get_by_label("word").fill("gamma")
    page.get_by_role("button", name="Take version 2, the active one").click()
    expect(page.get_by_label("word")).to_have_value("gamma")
    expect(page.get_by_label("new")).to_have_value("")
    expect(page.get_by_label("old")).to_have_count(0)
    page.get_by_role("button", name="Take version 1, that of the run").click()
    expect(page.get_by_label("old")).to_have_value("beta")
    page.get_by_role("button", name="Start the run").click()
    expect(page.locator("#summary")).to_contain_text("completed")
    again = console.admin.runs.GetRun(GetRunRequest(run_id=screen.path.removeprefix("/runs/")))
    assert (again.summary.version, json.loads(again.parameters)) == (1, {"word": "gamma", "old": "beta"})
    assert screen.complaints == []


def test_a_form_that_is_sent_twice_starts_one_run(
    console: Service, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    run_id = console.new_caller().finished(workflows["Detecting"], parameters={"seconds": 0})["run_id"]
    screen = signed_in("twice", ROLE_ADMINISTRATOR)
    screen.open(f"/workflows/{workflows['Detecting']}/start?run={run_id}")
    first, second = screen.page.evaluate(_SEND_TWICE)
    assert first == second
    started = console.admin.runs.GetRun(GetRunRequest(run_id=first.rpartition("/")[2]))
    assert started.summary.run_id != run_id
    assert started.pii_policy.mode == PII_MODE_DETECT


@pytest.mark.parametrize("width", [360, 1400])
def test_the_form_fits_the_screen_and_says_why_it_cannot_start(
    workflows: dict[str, str], signed_in: NewPerson, width: int
) -> None:
    screen = signed_in(f"start-reader-{width}", ROLE_ADMINISTRATOR)
    screen.page.set_viewport_size({"width": width, "height": 900})
    screen.open(f"/workflows/{workflows['Typed']}/start")
    assert screen.page.evaluate("document.documentElement.scrollWidth") <= width
    screen.open(f"/workflows/{workflows['From a bucket']}/start")
    expect(screen.page.locator(".problem")).to_contain_text("untested")
    screen.page.get_by_role("button", name="Browse").click()
    expect(screen.page.locator("#browsed")).to_be_visible()
    assert screen.complaints == []


@pytest.mark.parametrize("script", [True, False], ids=["with script", "without script"])
def test_a_run_starts_with_an_uploaded_table_and_a_zip(
    console: Service, chromium: Browser, tmp_path: Path, script: bool
) -> None:
    agent = {"kind": "Agent", "name": "lister", "type": "python", "code": _LISTER}
    steps = [{"step": "list", "agent": "lister", "environment": "standard"}]
    workflow = {"kind": "Workflow", "name": "Lists", "status": "active", "steps": steps, "result": {"step": "list"}}
    workflow["parameters"] = [{"name": "count", "type": "integer", "required": True}]
    workflow_id = console.admin.apply(f"{json.dumps(agent)}\n---\n{json.dumps(workflow)}", "lists.yaml")["Lists"]
    (tmp_path / "table.csv").write_bytes(b"a,b\n" * 400_000)
    with zipfile.ZipFile(tmp_path / "more.zip", "w") as archive:
        archive.writestr("deep/one.txt", "1")
        archive.writestr("two.txt", "22")
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        archive.writestr("../up.txt", "1")

    context = chromium.new_context(java_script_enabled=script)
    page = context.new_page()
    screen = Screen(page, console.ready["console"])
    name = f"uploader-{script}".lower()
    password = console.admin.add_user(name, ROLE_ADMINISTRATOR)
    screen.open("/sign-in")
    screen.sign_in(name, password)
    screen.change_password(password, f"the password of {name}")
    page.get_by_role("status").wait_for()
    screen.open(f"/workflows/{workflow_id}/start")
    page.get_by_label("count").fill("many")
    page.get_by_label("Files", exact=True).set_input_files([tmp_path / "table.csv", tmp_path / "bad.zip"])
    if not script:
        page.get_by_role("button", name="Upload now").click()
    expect(page.locator("#files-uploads .error")).to_contain_text("'bad.zip' has an entry '../up.txt' that leads out")
    expect(page.locator("#files-uploads li")).to_contain_text("table.csv 1.6 MB")
    expect(page.get_by_label("count")).to_have_value("many")

    if script:
        page.evaluate(_KEEP_PROGRESS)
    page.get_by_label("Files", exact=True).set_input_files([tmp_path / "more.zip"])
    page.get_by_role("button", name="Start the run").click()
    expect(page.locator(".error").filter(has_text="must be a whole number")).to_be_visible()
    expect(page.locator("#files-uploads li")).to_have_count(2)
    expect(page.locator("#files-uploads")).to_contain_text("2 files, 3 B expanded")
    if script:
        assert "Uploaded. The zip is being expanded" in page.evaluate("sessionStorage.uploadProgress")
    page.get_by_label("count").fill("3")
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url("**/runs/run_*")
    run_id = screen.path.removeprefix("/runs/")
    assert json.loads(until(lambda: _result(console, run_id), "the end of the run")) == {
        "uploads/deep/one.txt": 1,
        "uploads/table.csv": 1_600_000,
        "uploads/two.txt": 2,
    }
    screen.open(f"/workflows/{workflow_id}/start?run={run_id}")
    expect(page.locator("main")).to_contain_text("choose them again")
    assert [text for text in screen.complaints if "400" not in text] == []
    context.close()


def _result(console: Service, run_id: str) -> str:
    return console.admin.runs.GetRun(GetRunRequest(run_id=run_id)).result
