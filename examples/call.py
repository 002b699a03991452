"""Starts a run, prints the approval it waits for, and fetches its outputs: the API with the standard library alone.

    python examples/call.py start WORKFLOW [--input FILE] [PARAMETER=VALUE ...]
    python examples/call.py approval RUN_ID
    python examples/call.py fetch RUN_ID FOLDER

WORKFLOW_API_URL, WORKFLOW_API_KEY and WORKFLOW_API_EXTERNAL_ID are read from the environment. `start` prints the id of
the run; `approval` waits until the run waits for an approval, and prints its id.
"""

import argparse
import io
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
import zipfile
from pathlib import Path
from typing import Any

TERMINAL = ("completed", "failed", "cancelled")
POLL_SECONDS = 0.5


def call(path: str, body: object = None) -> bytes:
    """Returns the bytes of an answer; waits out a temporary refusal, and ends the program at any other."""
    headers = {
        "Authorization": f"Bearer {os.environ['WORKFLOW_API_KEY']}",
        "X-Service-Key-External-Id": os.environ["WORKFLOW_API_EXTERNAL_ID"],
    }
    data = None
    if body is not None:
        headers |= {"Content-Type": "application/json", "Idempotency-Key": uuid.uuid4().hex}
        data = json.dumps(body).encode()
    request = urllib.request.Request(os.environ["WORKFLOW_API_URL"] + "/api/v1" + path, data, headers)
    while True:
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                content: bytes = answer.read()
                return content
        except urllib.error.HTTPError as error:
            told = error.read().decode()
            # Outputs of an ended run are withheld while they are still being swept for personal data.
            if '"redaction_pending"' not in told and error.code not in {429, 503}:
                sys.exit(f"{path}: {error.code} {told}")
            time.sleep(float(error.headers.get("Retry-After", POLL_SECONDS)))


def wait(run_id: str, *statuses: str) -> dict[str, Any]:
    """Returns the run once it has one of the statuses, or has ended."""
    while True:
        run: dict[str, Any] = json.loads(call(f"/runs/{run_id}"))
        if run["status"] in (*statuses, *TERMINAL):
            return run
        time.sleep(POLL_SECONDS)


def start(name: str, parameters: list[str], file: Path | None) -> None:
    found = json.loads(call("/workflows?" + urllib.parse.urlencode({"q": name})))["items"]
    workflow = next((item for item in found if item["name"] == name), None)
    if workflow is None:
        sys.exit(f"There is no active workflow of the name {name!r}.")
    body: dict[str, Any] = {"parameters": dict(parameter.split("=", 1) for parameter in parameters)}
    if file is not None:
        body["input_text"] = file.read_text(encoding="utf-8")
    print(json.loads(call(f"/workflows/{workflow['workflow_id']}/runs", body))["run_id"])


def approval(run_id: str) -> None:
    run = wait(run_id, "waiting_for_approval")
    if run["status"] in TERMINAL:
        sys.exit(f"The run is {run['status']} and waits for nobody: {run.get('error')}")
    print(json.loads(call(f"/runs/{run_id}/approvals"))["items"][0]["approval_id"])


def fetch(run_id: str, folder: Path) -> None:
    """Waits for the end of the run, then writes its record as run.json and its outputs below the folder."""
    wait(run_id)
    zipfile.ZipFile(io.BytesIO(call(f"/runs/{run_id}/outputs.zip"))).extractall(folder)
    run = wait(run_id)
    (folder / "run.json").write_text(json.dumps(run, indent=2), encoding="utf-8")
    print(run["summary_markdown"] or f"The run is {run['status']}. {run.get('error', '')}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Calls the API at WORKFLOW_API_URL with the key of the environment.")
    commands = parser.add_subparsers(dest="command", required=True)
    starting = commands.add_parser("start")
    starting.add_argument("workflow")
    starting.add_argument("parameters", nargs="*", metavar="PARAMETER=VALUE")
    starting.add_argument("--input", type=Path, help="text file that becomes the run's input text")
    commands.add_parser("approval").add_argument("run_id")
    fetching = commands.add_parser("fetch")
    fetching.add_argument("run_id")
    fetching.add_argument("folder", type=Path)
    given = parser.parse_args()
    if given.command == "start":
        start(given.workflow, given.parameters, given.input)
    elif given.command == "approval":
        approval(given.run_id)
    else:
        fetch(given.run_id, given.folder)


if __name__ == "__main__":
    main()
