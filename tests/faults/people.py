"""People at the console: they look at pages, decide approvals, and start runs with a file."""

import hashlib
import http.client
import re
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from tests.faults.calls import Calls
from tests.faults.cluster import Cluster
from tests.faults.journal import NO_ANSWER, Journal
from tests.faults.load_record import LoadRecord, choose
from tests.faults.plan import Operation
from tests.faults.planted import GIVEN_TEXT
from tests.support.browsing import Browser, Seen
from workflow_api.v1 import users_pb2

ADMINISTRATOR: Final = "ana"
APPROVER: Final = "bo"
VIEWER: Final = "cy"
_ROLES: Final = {
    ADMINISTRATOR: users_pb2.ROLE_ADMINISTRATOR,
    APPROVER: users_pb2.ROLE_APPROVER,
    VIEWER: users_pb2.ROLE_VIEWER,
}
_PAGES: Final = (
    "/",
    "/runs",
    "/approvals",
    "/approvals/history",
    "/workflows",
    "/schedules",
    "/resources/environments",
    "/resources/environments/tables",
    "/deployment/health",
    "/usage",
    "/keys",
)
_OK: Final = 200
_SEE_OTHER: Final = 303
_TRIES: Final = 4
_TRY_AGAIN_SECONDS: Final = 0.7
_MEANT: Final = 120
_BOUNDARY: Final = "a-boundary-of-no-file"
_ONCE: Final = re.compile(r'name="once" value="([^"]+)"')
_VERSION: Final = re.compile(r'name="version" value="([0-9]+)"')
_PROBLEM: Final = re.compile(r'(?:class="error"|class="problem"|role="alert")[^>]*>\s*([^<]+)')
_STARTED_BEFORE: Final = "This form has started a run before"
# Each form that is sent again brings its file again, which waits for an hour.
_MANY_UPLOADS: Final = "uploads wait for a start"
_NO_ROOM: Final = "no room"
_PREPARING: Final = "still being prepared"
_IN_A_MOMENT: Final = "send the form once more in a moment"


class People:
    """Two people whose sessions last for the whole campaign, and one who signs in and out."""

    def __init__(self, cluster: Cluster, journal: Journal, calls: Calls, known: LoadRecord) -> None:
        self._cluster = cluster
        self._journal = journal
        self._calls = calls
        self._known = known
        self.cookies: dict[str, dict[str, str]] = {}
        self._passwords: dict[str, str] = {}
        self.operations: Mapping[str, Callable[[Operation], bool]] = {
            "see_page": self._see_page,
            "see_run": self._see_run,
            "decide_in_console": self._decide,
            "start_in_console": self._start,
            "sign_in": self._sign_in,
        }

    def begin(self) -> None:
        """Signs them in, with passwords of their own."""
        with ThreadPoolExecutor(len(_ROLES)) as pool:
            list(pool.map(self._begin_session, _ROLES))

    def _begin_session(self, person: str) -> None:
        given = self._cluster.admins[0].add_user(person, _ROLES[person])
        browser = Browser(self._cluster.console_address())
        assert browser.sign_in(person, given).status == _SEE_OTHER
        own = self._passwords[person] = uuid.uuid4().hex
        token = browser.get("/password").token
        changed = browser.post("/password", token, password=given, new_password=own, again=own)
        assert changed.status == _SEE_OTHER, changed.words
        # This page shows the notice that it is changed, and none after it does.
        browser.get("/")
        self.cookies[person] = dict(browser.cookies)

    def _see_page(self, operation: Operation) -> bool:
        path = choose(list(_PAGES), operation.chances[0])
        assert path is not None
        return self._seen("see_page", ADMINISTRATOR, path, {}) is not None

    def _see_run(self, operation: Operation) -> bool:
        erased = operation.chances[2] < 0.4
        runs = self._known.runs(lambda run: run.erased or not erased)
        run = choose(runs, operation.chances[0], newest=_MEANT)
        if run is None:
            return False
        return self._seen("see_run", ADMINISTRATOR, f"/runs/{run.run_id}", {"run": run.run_id}) is not None

    def _decide(self, operation: Operation) -> bool:
        backend = int(operation.chances[5] * 2)
        pending = self._calls.pending(backend)
        chosen = None if pending is None else choose(list(pending.items), operation.chances[0])
        if chosen is None:
            return pending is not None
        approval_id, approve = chosen.approval.approval_id, operation.chances[2] < 0.8
        about = {"approval": approval_id, "run": chosen.run_id, "approve": approve}
        path = f"/approvals/{approval_id}"
        page = self._seen("see_approval", APPROVER, path, about)
        if page is None or page.status != _OK:
            return page is not None
        form: dict[str, Any] = {"decision": "approve" if approve else "reject", "comment": f"of {operation.number}"}
        for _ in range(_TRIES):
            # Who hears nothing sends the same form again.
            answer = self._send(
                "decide_in_console", APPROVER, about, lambda browser: browser.post(path, page.token, **form)
            )
            if answer is not None:
                return True
            time.sleep(_TRY_AGAIN_SECONDS)
        return False

    def _start(self, operation: Operation) -> bool:
        workflow = self._cluster.flows["Attached" if operation.chances[1] < 0.5 else "AskedAttached"]
        path = f"/workflows/{workflow}/start"
        page = self._seen("see_page", ADMINISTRATOR, path, {})
        if page is None or page.status != _OK:
            return False
        reference = f"console-{operation.number}"
        content = f"file of {reference}\n".encode() * 200
        once, version = _ONCE.search(page.text), _VERSION.search(page.text)
        assert once is not None
        assert version is not None
        fields = {
            "csrf": page.token,
            "version": version[1],
            "once": once[1],
            "input_text": f"text of {reference}",
            "client_reference": reference,
        }
        body = _multipart(fields, content)
        about = {"reference": reference, "sha256": hashlib.sha256(content).hexdigest()}

        def send(browser: Browser) -> Seen:
            host, port = browser.address
            headers = {
                "Origin": f"http://{host}:{port}",
                "Content-Type": f"multipart/form-data; boundary={_BOUNDARY}",
            }
            return browser.send("POST", path, body, headers)

        for _ in range(_TRIES):
            if self._send("start_in_console", ADMINISTRATOR, about, send) is not None:
                return True
            time.sleep(_TRY_AGAIN_SECONDS)
        return False

    def _sign_in(self, _: Operation) -> bool:
        def send(browser: Browser) -> Seen:
            browser.cookies = {}
            seen = browser.get("/sign-in")
            if seen.status == _OK:
                seen = browser.post("/sign-in", seen.token, name=VIEWER, password=self._passwords[VIEWER])
            if seen.status != _SEE_OTHER:
                return seen
            first = browser.get("/")
            if first.status == _OK:
                browser.post("/sign-out", first.token)
            return first

        return self._send("sign_in", VIEWER, {}, send) is not None

    def _seen(self, kind: str, person: str, path: str, about: Mapping[str, Any]) -> Seen | None:
        return self._send(kind, person, {**about, "path": path}, lambda browser: browser.get(path))

    def _send(self, kind: str, person: str, about: Mapping[str, Any], send: Callable[[Browser], Seen]) -> Seen | None:
        """The answer to one request, None where none came or a later one is better; the journal has it."""
        number = self._journal.call(kind, person=person, **about)
        try:
            browser = Browser(self._cluster.console_address())
            browser.cookies = dict(self.cookies[person])
            seen = send(browser)
        except (OSError, http.client.HTTPException, UnicodeDecodeError) as error:
            self._journal.answer(number, NO_ANSWER, type(error).__name__, {})
            return None
        status, code, said = _judged(kind, seen)
        self._journal.answer(number, status, code, said)
        return None if status in {502, 503} or code == "in_a_moment" else seen


def _judged(kind: str, seen: Seen) -> tuple[int, str | None, dict[str, Any]]:
    """Status, code and what was said, as calls of the API have them."""
    said: dict[str, Any] = {}
    status, code = seen.status, None if seen.status == _OK else "page"
    match kind, seen.status:
        case _, 303 if seen.location.startswith("/sign-in"):
            status, code = 401, "signed_out"
        case _, 502 | 503:
            status, code = 502, "runtime_unreachable"
        case "see_run", 200:
            said = {"shows": bool(GIVEN_TEXT.search(seen.text))}
        case "decide_in_console", 303:
            # An approval that is decided leads to its run, another one back.
            status, code = (_OK, None) if seen.location.startswith("/runs/") else (400, "not_pending")
        case "decide_in_console", 400 if _PREPARING in seen.words:
            status, code = 409, "in_a_moment"
        case "start_in_console", 303:
            status, code, said = _OK, None, {"run": seen.location.rpartition("/")[2]}
        case "start_in_console", 400 if _STARTED_BEFORE in seen.words:
            status, code = 409, "started_before"
        case "start_in_console", 400 if _IN_A_MOMENT in seen.words:
            status, code = 409, "in_a_moment"
        case "start_in_console", 400 if _MANY_UPLOADS in seen.words:
            status, code = 409, "many_uploads"
        case "start_in_console", 400 if _NO_ROOM in seen.words:
            status, code = 502, "runtime_unreachable"
    return status, code, said if code is None else {"words": (_PROBLEM.findall(seen.text) or [seen.words])[:3]}


def _multipart(fields: Mapping[str, str], content: bytes) -> bytes:
    """A form with one file for the steps."""
    parts = [
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    of_file = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="files.uploads"; filename="file.txt"\r\n\r\n'
    return b"".join([*parts, of_file.encode(), content, f"\r\n--{_BOUNDARY}--\r\n".encode()])
