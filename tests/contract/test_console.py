"""The web console of a started service, as browsers without a script see it."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from tests.conftest import NewDatabase
from tests.contract.test_fan_out import WORKFLOW as FAN_OUT
from tests.support.browsing import Browser
from tests.support.part import Part
from tests.support.planted import plant
from tests.support.service import Service
from workflow_api.v1 import audit_pb2, users_pb2

ADMINISTRATOR, APPROVER = users_pb2.ROLE_ADMINISTRATOR, users_pb2.ROLE_APPROVER
HOSTILE = '<img src=x onerror="alert(1)">'

MISTAKEN = """kind: Workflow
name: Mistaken
description: 'not closed
status: draft
steps:
- step: one
  agent echo
- step: two
  agent: echo
max_concurrency: 2
pii_policy: {mode: off
retention_days: 3
---
kind: Environment
name: sound-but-small
network: none
memory_mb: 1
"""

NewPerson = Callable[[str, users_pb2.Role.ValueType], Browser]


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory, new_database: NewDatabase) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("console"), "--console", "127.0.0.1:0", database=new_database())
    service.start()
    try:
        yield service
    finally:
        service.stop()


@pytest.fixture(scope="module")
def person(console: Service) -> NewPerson:
    """Makes people who have signed in with a password of their own."""

    def make(name: str, role: users_pb2.Role.ValueType) -> Browser:
        browser = browser_of(console.ready["console"])
        first = console.admin.add_user(name, role)
        assert browser.sign_in(name, first).location == "/password"
        own = f"the password of {name}"
        plant(first, own)
        form = browser.get("/password")
        answer = browser.post("/password", form.token, password=first, new_password=own, again=own)
        assert (answer.status, answer.location) == (303, "/")
        return browser

    return make


@pytest.fixture(scope="module")
def ann(person: NewPerson) -> Browser:
    return person("ann", ADMINISTRATOR)


@pytest.fixture(scope="module")
def bob(person: NewPerson) -> Browser:
    return person("bob", APPROVER)


def browser_of(console: str) -> Browser:
    url = urlsplit(console)
    assert (url.scheme, url.hostname, url.path) == ("http", "127.0.0.1", "/")
    assert url.port is not None
    return Browser(("127.0.0.1", url.port))


def test_the_console_is_off_by_default(service: Service) -> None:
    assert "console" not in service.ready


def test_a_person_signs_in_changes_the_password_and_signs_out(console: Service, person: NewPerson) -> None:
    eve = person("eve", APPROVER)
    token = eve.get("/password").token
    kept = dict(eve.cookies)

    assert eve.post("/sign-out", token).location == "/sign-in"
    eve.cookies = kept
    assert eve.get("/password").location == "/sign-in?next=/password"


def test_the_session_is_a_cookie_that_scripts_and_other_sites_cannot_use(console: Service) -> None:
    password = console.admin.add_user("kim", APPROVER)
    kim = browser_of(console.ready["console"])

    session = kim.sign_in("kim", password).cookies["session"]

    assert [session[flag] for flag in ("path", "httponly", "samesite", "domain")] == ["/", True, "Strict", ""]


def test_a_disabled_person_is_signed_out_at_once(console: Service, person: NewPerson) -> None:
    max_ = person("max", APPROVER)
    assert max_.get("/password").status == 200

    console.admin.users.DisableUser(users_pb2.DisableUserRequest(name="max"))

    assert max_.get("/password").status == 303


def test_ten_wrong_passwords_lock_a_name_at_their_address(console: Service, person: NewPerson) -> None:
    person("joe", APPROVER)
    wrong = browser_of(console.ready["console"])
    wrong.source = "127.0.0.2"

    answers = [wrong.sign_in("joe", "wrong") for _ in range(11)]

    assert [answer.status for answer in answers] == [401] * 10 + [429]
    assert "Try again in" in answers[-1].words
    assert browser_of(console.ready["console"]).sign_in("joe", "the password of joe").status == 303


@pytest.mark.long
def test_failures_of_other_callers_refuse_nobody(console: Service, person: NewPerson) -> None:
    person("sue", APPROVER)

    def fail(number: int) -> int:
        stranger = browser_of(console.ready["console"])
        stranger.source = f"127.0.1.{number % 4 + 1}"
        return stranger.sign_in(f"stranger-{number}", "wrong").status

    with ThreadPoolExecutor(40) as pool:
        failing = [pool.submit(fail, number) for number in range(40)]
        answer = browser_of(console.ready["console"]).sign_in("sue", "the password of sue")
        assert answer.status == 303
        assert {failed.result() for failed in failing} <= {401, 429}


def test_a_short_password_is_refused_on_the_form(ann: Browser) -> None:
    form = ann.get("/password")

    answer = ann.post("/password", form.token, password="x" * 12, new_password="short", again="short")

    assert answer.status == 400
    assert "12" in answer.words


def test_a_page_needs_a_session_and_a_role(console: Service, bob: Browser) -> None:
    stranger = browser_of(console.ready["console"])

    assert stranger.get("/keys?a=b").location == "/sign-in?next=/keys?a%3Db"
    assert stranger.post("/sign-out", "0" * 64).location == "/sign-in"
    assert bob.get("/keys").status == 403
    assert bob.get("/nowhere").status == 404


def test_input_from_a_browser_is_shown_escaped(console: Service) -> None:
    answer = browser_of(console.ready["console"]).sign_in(HOSTILE, "wrong", next=HOSTILE)

    assert answer.status == 401
    assert "<img" not in answer.text
    assert "&lt;img src=x onerror=" in answer.text


def test_a_change_is_audited_under_the_name_of_the_person(console: Service, ann: Browser) -> None:
    trail = console.admin.audit.ListAuditRecords(audit_pb2.ListAuditRecordsRequest())

    assert ann.cookies
    assert "user:ann" in {record.actor for record in trail.items}


def test_several_runs_are_changed_by_the_forms_of_those_who_may_change_one(
    console: Service, person: NewPerson, bob: Browser
) -> None:
    workflow_id = console.admin.apply_test_workflows()["Park"]
    caller = console.new_caller()
    runs = [caller.parked(workflow_id)["run_id"] for _ in range(2)]
    chosen = urlencode({"run_id": [*runs, "run_nothing"]}, doseq=True)
    olga = person("olga", users_pb2.ROLE_OPERATOR)
    assert [each.get(f"/runs/erase?{chosen}").status for each in (olga, bob)] == [403, 403]
    assert bob.get(f"/runs/cancel?{chosen}").status == 403

    question = olga.get(f"/runs/cancel?{chosen}")
    assert "Cancel 2 runs? 2 of 3 selected; 1 left out" in question.words
    form: dict[str, Any] = {"run_id": runs, "once": "one", "reason": "late"}
    assert [olga.post("/runs/cancel", **form).status, bob.post("/runs/cancel", **form).status] == [403, 403]
    assert olga.post("/runs/erase", question.token, **form).status == 403
    assert {caller.get(f"/runs/{run_id}").json()["status"] for run_id in runs} == {"waiting_for_approval"}

    answers = [olga.post("/runs/cancel", question.token, **form) for _ in range(2)]
    assert ["2 cancelled or ending, 0 skipped, 0 refused." in answer.words for answer in answers] == [True, True]
    late = olga.post("/runs/cancel", olga.get("/runs").token, **form)
    assert "0 cancelled or ending, 2 skipped, 0 refused." in late.words
    trail = console.admin.audit.ListAuditRecords(audit_pb2.ListAuditRecordsRequest())
    asked = [(record.actor, record.target) for record in trail.items if record.action == "run.cancel_requested"]
    assert sorted(asked) == [("user:olga", run_id) for run_id in sorted(runs)]


def test_a_separate_console_serves_the_same_sessions(console: Service, ann: Browser, tmp_path: Path) -> None:
    with Part.started(tmp_path / "apart", "console", "--http", "127.0.0.1:0", "--grpc", console.ready["grpc"]) as apart:
        elsewhere = browser_of(apart.ready["console"])
        elsewhere.cookies = dict(ann.cookies)
        assert "ann" in elsewhere.get("/password").words
        assert elsewhere.get("/healthz").text == "ok"


def test_a_console_without_a_backend_says_so(tmp_path: Path) -> None:
    with Part.started(tmp_path / "alone", "console", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:1") as alone:
        browser = browser_of(alone.ready["console"])
        browser.cookies["session"] = "x" * 43
        assert browser.get("/password").status == 502
        assert browser.get("/healthz").status == 200


def test_the_page_of_a_run_shows_items_and_leads_to_their_logs(console: Service, ann: Browser) -> None:
    (workflow_id,) = console.admin.apply(FAN_OUT).values()
    caller = console.caller(console.admin.create_key())
    run_id = caller.finished(workflow_id)["run_id"]
    page = ann.get(f"/runs/{run_id}?step=half")
    assert "2 of 3 items, 1 failed" in page.words
    assert "Item 1 of half failed at attempt 1: ValueError: odd" in ann.get(f"/runs/{run_id}?tab=events").words
    address = f"/runs/{run_id}/logs/half%2F2"
    assert f'href="{address}"' in page.text
    log = ann.get(address)
    assert (log.status, "half of 6" in log.words) == (200, True)


@pytest.mark.parametrize("page", ["new", "edit"])
def test_every_mistake_of_yaml_in_the_editor_is_marked_at_its_line(console: Service, ann: Browser, page: str) -> None:
    workflow_id = console.admin.apply("kind: Workflow\nname: Mistaken\n")["Mistaken"]
    path = "/workflows/new" if page == "new" else f"/workflows/{workflow_id}/edit"
    answer = ann.post(path, ann.get(path).token, base="1", text=MISTAKEN.replace("\n", "\r\n"), do="check")
    assert answer.status == 400
    assert re.findall(r'<b id="line-([0-9]+)">', answer.text) == ["3", "7", "11", "17"]
    told = re.findall(r"Line ([0-9]+)\W+(document|memory_mb)", answer.words)
    # The first mistake is said in the bar with the buttons, too.
    assert told.pop() == told[0]
    assert told == [("3", "document"), ("7", "document"), ("11", "document"), ("17", "memory_mb")]
    assert answer.words.count("must be YAML:") == 4
    assert "Error:" not in answer.words
