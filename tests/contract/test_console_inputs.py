"""Inputs of runs whose policy redacts, over all pages of the console and the roles of people."""

import json
import textwrap
from collections.abc import Iterator
from urllib.parse import quote, urlsplit

import pytest

from contract.roles import ROLE_NAMES
from tests.conftest import NewDatabase
from tests.support.browsing import Browser
from tests.support.client import Caller
from tests.support.poll import until
from tests.support.service import Service
from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR, ROLE_OPERATOR, Role

MAIL = "jane.roe@example.com"
CARD = "4111 1111 1111 1111"
AGENT = """
    def run(context):
        who = context.parameters["who"]
        print("for", who)
        context.progress("asked by", who=who)
        (context.outputs / "letter.md").write_text(f"# To {who}")
        return {"who": who, "text": context.input_text, "summary_markdown": f"Sent to {who}"}
"""
MANIFESTS = [
    {"kind": "Environment", "name": "standard"},
    {"kind": "Agent", "name": "letters", "type": "python", "code": textwrap.dedent(AGENT)},
    {
        "kind": "Workflow",
        "name": "Letters",
        "status": "active",
        "pii_policy": {"mode": "redact", "stages": ["inputs", "steps", "outputs"]},
        "parameters": [{"name": "who", "type": "string"}, {"name": "more", "type": "json"}],
        "steps": [
            {"step": "write", "agent": "letters", "environment": "standard"},
            {"step": "look", "approval": {"title": "Look", "instructions": "Well?"}, "needs": ["write"]},
        ],
        "result": {"step": "write"},
    },
]
MAY_REVEAL = {ROLE_ADMINISTRATOR, ROLE_OPERATOR}


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory, new_database: NewDatabase) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("console"), "--console", "127.0.0.1:0", database=new_database())
    service.start()
    try:
        yield service
    finally:
        service.stop()


@pytest.fixture(scope="module")
def runs(console: Service) -> list[str]:
    """A run that waits for a person, and one that has ended."""
    workflow_id = console.admin.apply("\n---\n".join(map(json.dumps, MANIFESTS)))["Letters"]
    caller: Caller = console.new_caller()
    given = {"parameters": {"who": MAIL, "more": {"card": [CARD]}}, "input_text": f"from {MAIL}"}
    ended, waiting = (caller.parked(workflow_id, **given)["run_id"] for _ in range(2))
    (approval,) = caller.get(f"/runs/{ended}/approvals").json()["items"]
    console.admin.decide(approval["approval_id"], approve=False, comment=f"not to {MAIL}")
    caller.wait(ended, "failed")
    until(lambda: caller.get(f"/runs/{ended}/outputs").status == 200, "the sweep")
    assert caller.run(ended)["input_text"] == f"from {MAIL}"
    return [waiting, ended]


def signed_in(console: Service, name: str, role: Role.ValueType) -> Browser:
    url = urlsplit(console.ready["console"])
    assert url.hostname is not None
    assert url.port is not None
    browser = Browser((url.hostname, url.port))
    password = console.admin.add_user(name, role)
    browser.sign_in(name, password)
    own = f"the password of {name}"
    browser.post("/password", browser.get("/password").token, password=password, new_password=own, again=own)
    return browser


def pages_of(browser: Browser, runs: list[str]) -> list[str]:
    """Returns the addresses of all pages that show a run, and of those that list it."""
    waiting, ended = runs
    found = [
        f"/runs/{waiting}/compare?with={ended}",
        "/",
        "/runs",
        "/approvals",
        "/approvals/history",
        "/audit",
        "/usage",
    ]
    found += [f"/search?q={quote(MAIL)}", f"/runs?q={waiting}"]
    for run in runs:
        here = f"/runs/{run}"
        found += [here, f"{here}?step=write", f"{here}?step=look", f"{here}/compare", f"{here}/logs/write"]
        found += [f"{here}/outputs.zip"]
        tabs = [f"{here}?tab={tab}" for tab in ("results", "events", "inputs")]
        found += tabs
        text = "".join(browser.get(page).text for page in (here, *tabs))
        found += {part.partition('"')[0] for part in text.split('href="')[1:] if part.startswith(f"{here}/outputs/")}
        found += {part.partition('"')[0] for part in text.split('href="')[1:] if part.startswith("/approvals/a")}
        segment = text.partition("Segment ")[2].partition("<code>")[2].partition("<")[0]
        found += [f"{here}/events/{segment}/{number}" for number in range(1, 9)]
    return found


@pytest.mark.parametrize("role", ROLE_NAMES)
def test_no_page_of_a_run_that_redacts_shows_what_was_given(
    console: Service, runs: list[str], role: Role.ValueType
) -> None:
    name = ROLE_NAMES[role]
    browser = signed_in(console, f"looking-{name}", role)
    for run in runs:
        until(lambda run=run: "[EMAIL_ADDRESS]" in browser.get(f"/runs/{run}").words, "the swept inputs")  # type: ignore[misc]
    shown = 0
    for path in pages_of(browser, runs):
        answer = browser.send("GET", path) if not path.endswith(".zip") else None
        if answer is None or answer.status != 200:
            continue
        shown += 1
        assert (path, MAIL in answer.text.replace(f'value="{MAIL}"', ""), CARD in answer.text) == (path, False, False)
    assert shown > 10


@pytest.mark.parametrize("role", ROLE_NAMES)
def test_only_who_may_run_it_again_sees_what_was_given_on_request_and_audited(
    console: Service, runs: list[str], role: Role.ValueType
) -> None:
    name = f"asking-{ROLE_NAMES[role]}"
    browser = signed_in(console, name, role)
    run, _ = runs
    page = browser.get(f"/runs/{run}?tab=inputs")
    assert ("Show as given" in page.words) == (role in MAY_REVEAL)
    answer = browser.post(f"/runs/{run}/inputs", page.token)
    workflow = page.text.partition('href="/workflows/')[2].partition("?")[0].partition("/")[0]
    again = browser.get(f"/workflows/{workflow}/start?run={run}")
    allowed = [200, 200] if role in MAY_REVEAL else [403, 403]
    assert [answer.status, again.status] == allowed
    assert [MAIL in each.text for each in (answer, again)] == [role in MAY_REVEAL] * 2
    administrator = signed_in(console, f"auditing-{ROLE_NAMES[role]}", ROLE_ADMINISTRATOR)
    found = administrator.get(f"/audit?action=run.inputs_revealed&actor=user:{name}").text.replace("<wbr>", "")
    records = found.count(f'title="{run}"')
    assert (records >= 2) == (role in MAY_REVEAL)


def test_a_rejected_run_shows_who_rejected_it_when_and_why_swept(console: Service, runs: list[str]) -> None:
    browser = signed_in(console, "reading", ROLE_OPERATOR)
    until(lambda: "not to [EMAIL_ADDRESS]" in browser.get(f"/runs/{runs[1]}").words, "the redacted comment")
    words = browser.get(f"/runs/{runs[1]}").words
    assert "Look was rejected by" in words
    assert MAIL not in words
