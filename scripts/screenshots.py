"""Makes the pictures of the console in Chromium: five pages of the demonstration, and the record of its components."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
from playwright.sync_api import Page, sync_playwright

ROOT: Final = Path(__file__).resolve().parent.parent
IMAGES: Final = ROOT / "docs" / "images"
COMMAND: Final = Path(sys.executable).with_name("workflow-api")
SIZE: Final = (1280, 760)
LONGEST_SECONDS: Final = 120
PASSWORD: Final = "a password of the pictures"  # noqa: S105 - of a service that ends with this script
NOTES: Final = "Decision: Ship on Monday\nAction: Ann writes to the warehouse\nOpen: Who checks the labels?\n"
TEXT: Final = "Four score and seven years ago our fathers brought forth on this continent, a new nation. " * 5


class Demonstration:
    """A started demonstration: its printed record, and calls with its key and its command."""

    def __init__(self, ready: Mapping[str, str]) -> None:
        self.ready = ready

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Calls the HTTP API; returns the answer, refusals included."""
        headers = {
            "Authorization": f"Bearer {self.ready['key']}",
            "X-Service-Key-External-Id": self.ready["external_id"],
            "Idempotency-Key": os.urandom(8).hex(),
        }
        return httpx.request(method, self.ready["base_address"] + path, headers=headers, json=body, timeout=60).json()

    def page(self, path: str) -> str:
        """Returns the address of a page of the console."""
        return self.ready["console"].rstrip("/") + path

    def command(self, *words: str) -> None:
        """Runs the `workflow-api` command against the demonstration."""
        subprocess.run([COMMAND, *words, "--grpc", self.ready["grpc"]], check=True, stdout=subprocess.DEVNULL)

    def started(self, workflow: str, **fields: object) -> str:
        """Starts a run and returns its id."""
        found = next(each for each in self.call("GET", "/workflows")["items"] if each["name"] == workflow)
        return str(self.call("POST", f"/workflows/{found['workflow_id']}/runs", fields)["run_id"])

    def wait(self, run_id: str, *statuses: str) -> None:
        """Waits until a run has one of the statuses."""
        until = time.monotonic() + LONGEST_SECONDS
        while (run := self.call("GET", f"/runs/{run_id}?wait_seconds=5"))["status"] not in statuses:
            if time.monotonic() > until:
                raise TimeoutError(run)


@contextmanager
def demonstration(folder: Path) -> Iterator[Demonstration]:
    """Starts the demonstration with its data in a folder, and stops it at the end."""
    ports = [word for name in ("http", "grpc", "console") for word in (f"--{name}", "127.0.0.1:0")]
    with (folder / "stderr.log").open("w") as log:
        serve = [str(COMMAND), "serve", "--demo", "--json", "--data", str(folder / "data"), *ports]
        process = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert process.stdout is not None
            yield Demonstration(json.loads(process.stdout.readline()))
        finally:
            process.terminate()
            process.wait(LONGEST_SECONDS)


def fill(demo: Demonstration) -> tuple[str, str]:
    """Starts runs and makes keys; returns the ids of a run and of an approval to show."""
    for name, scopes in (
        ("Warehouse", "runs:create,runs:read"),
        ("Reporting", "workflows:read,runs:read,outputs:read"),
    ):
        demo.command("keys", "create", "--name", name, "--scopes", scopes)
    runs = [demo.started("Text digest", input_text=TEXT, client_reference=f"order-{4711 + n}") for n in range(4)]
    failed = demo.started("Reviewed report", input_text="Nothing to report.", parameters={"title": "June"})
    for run_id in runs:
        demo.wait(run_id, "completed")
    demo.wait(failed, "failed")
    done = demo.started("Reviewed report", input_text=NOTES, parameters={"title": "July"}, client_reference="july")
    waiting = demo.started(
        "Reviewed report", input_text=NOTES, parameters={"title": "August"}, client_reference="august"
    )
    for run_id in (done, waiting):
        demo.wait(run_id, "waiting_for_approval")
    demo.command("approvals", "approve", _approval_of(demo, done))
    demo.wait(done, "completed")
    demo.call("GET", "/runs/run_of_nobody")
    return done, _approval_of(demo, waiting)


def _approval_of(demo: Demonstration, run_id: str) -> str:
    return str(demo.call("GET", f"/runs/{run_id}/approvals")["items"][0]["approval_id"])


def sign_in(page: Page, demo: Demonstration) -> None:
    """Signs in as the demonstration's administrator, who chooses a password."""
    page.goto(demo.page("/sign-in"))
    page.get_by_label("Name").fill(demo.ready["user"])
    page.get_by_label("Password").fill(demo.ready["password"])
    page.get_by_role("button", name="Sign in").click()
    page.get_by_label("Current password").fill(demo.ready["password"])
    page.get_by_label("New password", exact=True).fill(PASSWORD)
    page.get_by_label("Repeat the new password").fill(PASSWORD)
    page.get_by_role("button", name="Change password").click()
    page.get_by_role("status").wait_for()


def main() -> None:
    """Writes the pictures, or with `--design` the record of components alone."""
    if sys.argv[1:] == ["--design"]:
        record_design()
        return
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("This needs Debian's chromium: apt-get install chromium")
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, demonstration(Path(folder)) as demo, sync_playwright() as playwright:
        run_id, approval_id = fill(demo)
        # Chromium has no sandbox of its own for the user root.
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=chromium, args=options)
        page = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]}, color_scheme="light")
        sign_in(page, demo)
        pages = {
            "runs": "/runs",
            "run": f"/runs/{run_id}",
            "approval": f"/approvals/{approval_id}",
            "keys": "/keys",
            "usage": "/usage?by=route",
        }
        for name, path in pages.items():
            page.goto(demo.page(path))
            while page.get_by_text("Not yet active").count():
                # New keys become active within a minute.
                page.wait_for_timeout(1_000)
                page.reload()
            page.screenshot(path=IMAGES / f"{name}.png")
        browser.close()
    record_design()


def record_design() -> None:
    """Records the sheet of components, with which tests/browser/test_design.py compares it."""
    recorded = ("tests/browser/test_design.py", "-k", "recorded", "--record-design")
    subprocess.run([sys.executable, "-m", "pytest", "--quiet", *recorded], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
