"""Starts a run over gRPC, waits for its end, and fetches its outputs, as an internal service does.

    python examples/grpc_client.py ADDRESS WORKFLOW FOLDER [PARAMETER=VALUE ...] [--input FILE] [--actor NAME]

ADDRESS is HOST:PORT or unix:/path. With --certificate, --key and --ca it connects over mutual TLS.
A value that is JSON, as 5 or true, is passed as such, any other as text.
"""

import argparse
import json
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import grpc
from google.rpc import error_details_pb2, status_pb2

from workflow_api.v1 import outputs_pb2, runs_pb2, workflows_pb2
from workflow_api.v1.outputs_pb2_grpc import OutputsServiceStub
from workflow_api.v1.runs_pb2_grpc import RunsServiceStub
from workflow_api.v1.workflows_pb2_grpc import WorkflowsServiceStub

A = TypeVar("A")

OPTIONS = (("grpc.max_receive_message_length", -1),)
DEADLINE_SECONDS = 10
DOWNLOAD_SECONDS = 600
WATCH_SECONDS = 3600
# Long enough for a backend to be restarted.
PAUSES = (0.2, 0.4, 0.8, 1.6, 3.2, 6.4)
# This program cancels no calls, so CANCELLED means that a connection or a backend ended.
UNANSWERED = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED}
ENDED = {runs_pb2.RUN_STATUS_COMPLETED, runs_pb2.RUN_STATUS_FAILED, runs_pb2.RUN_STATUS_CANCELLED}


def details_of(error: grpc.RpcError) -> tuple[str, dict[str, str], float | None]:
    """Returns the reason of a refusal, its problems by field, and the seconds until another try makes sense."""
    trailers = {entry.key: entry.value for entry in error.trailing_metadata() or ()}
    packed = trailers.get("grpc-status-details-bin")
    info, bad, retry = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
    for detail in status_pb2.Status.FromString(packed).details if packed else ():
        _ = detail.Unpack(info) or detail.Unpack(bad) or detail.Unpack(retry)
    fields = {violation.field: violation.description for violation in bad.field_violations}
    return info.reason, fields, retry.retry_delay.seconds if retry.HasField("retry_delay") else None


def repeated(call: Callable[[], A]) -> A:
    """Makes a call that may be repeated; repeats it with growing pauses while it is not answered."""
    for pause in PAUSES:
        try:
            return call()
        except grpc.RpcError as error:
            if error.code() not in UNANSWERED:
                raise
            time.sleep(pause)
    return call()


class Client:
    """Client of the services that this program uses, on one channel."""

    def __init__(self, channel: grpc.Channel, actor: str) -> None:
        self._runs = RunsServiceStub(channel)
        self._outputs = OutputsServiceStub(channel)
        self._workflows = WorkflowsServiceStub(channel)
        # Metadata is ASCII.
        self._metadata = (("workflow-api-actor", quote(actor, safe=":@ ")),)

    def workflow_id(self, name: str) -> str:
        request = workflows_pb2.ListWorkflowsRequest(q=name)
        while True:
            page = repeated(lambda: self._workflows.ListWorkflows(request, timeout=DEADLINE_SECONDS))
            for workflow in page.items:
                if workflow.name == name:
                    return workflow.workflow_id
            if not page.HasField("next_page_token"):
                sys.exit(f"There is no active workflow of the name {name!r}.")
            request.page_token = page.next_page_token

    def start(self, workflow_id: str, parameters: dict[str, Any], input_text: str | None) -> str:
        # Made once, so that a repeated call does not start a second run.
        request = runs_pb2.StartRunRequest(
            workflow_id=workflow_id,
            idempotency_key=uuid.uuid4().hex,
            parameters=json.dumps(parameters),
            input_text=input_text,
        )
        call = repeated(lambda: self._runs.StartRun(request, timeout=DEADLINE_SECONDS, metadata=self._metadata))
        return call.run.summary.run_id

    def wait(self, run_id: str) -> runs_pb2.Run:
        request = runs_pb2.WatchRunRequest(run_id=run_id)
        pauses = iter(PAUSES)
        while True:
            try:
                for run in self._runs.WatchRun(request, timeout=WATCH_SECONDS):
                    if run.summary.status in ENDED:
                        return run
                    pauses = iter(PAUSES)
            except grpc.RpcError as error:
                pause = next(pauses, None)
                if error.code() not in UNANSWERED or pause is None:
                    raise
                time.sleep(pause)

    def fetch(self, run_id: str, folder: Path) -> list[Path]:
        request = outputs_pb2.ListOutputsRequest(run_id=run_id)
        files = []
        while True:
            page = self._page_of_outputs(request)
            for output in page.items:
                target = folder / output.path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(self._content(run_id, output.output_id))
                files.append(target)
            if not page.HasField("next_page_token"):
                return files
            request.page_token = page.next_page_token

    def _page_of_outputs(self, request: outputs_pb2.ListOutputsRequest) -> outputs_pb2.ListOutputsResponse:
        while True:
            try:
                return repeated(lambda: self._outputs.ListOutputs(request, timeout=DEADLINE_SECONDS))
            except grpc.RpcError as error:
                # Outputs of an ended run are withheld while they are still being swept for personal data.
                reason, _, seconds = details_of(error)
                if reason != "REDACTION_PENDING" or seconds is None:
                    raise
                time.sleep(seconds)

    def _content(self, run_id: str, output_id: str) -> bytes:
        request = outputs_pb2.GetOutputContentRequest(run_id=run_id, output_id=output_id)

        def whole() -> bytes:
            messages = self._outputs.GetOutputContent(request, timeout=DOWNLOAD_SECONDS)
            return b"".join(message.data for message in messages)

        return repeated(whole)


def value_of(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def open_channel(address: str, certificate: Path | None, key: Path | None, ca: Path | None) -> grpc.Channel:
    if certificate is None or key is None or ca is None:
        return grpc.insecure_channel(address, options=OPTIONS)
    credentials = grpc.ssl_channel_credentials(ca.read_bytes(), key.read_bytes(), certificate.read_bytes())
    return grpc.secure_channel(address, credentials, options=OPTIONS)


def main() -> None:
    parser = argparse.ArgumentParser(description="Runs a workflow over gRPC and fetches what it leaves.")
    parser.add_argument("address")
    parser.add_argument("workflow", help="name of an active workflow")
    parser.add_argument("folder", type=Path, help="folder for the outputs")
    parser.add_argument("parameters", nargs="*", metavar="PARAMETER=VALUE")
    parser.add_argument("--input", type=Path, help="text file that becomes the run's input text")
    parser.add_argument("--actor", default="service:example", help="who is behind the start, for the audit trail")
    for name in ("certificate", "key", "ca"):
        parser.add_argument(f"--{name}", type=Path, help="PEM file, for mutual TLS")
    given = parser.parse_args()
    text = None if given.input is None else given.input.read_text(encoding="utf-8")
    parameters = {name: value_of(text) for name, _, text in (each.partition("=") for each in given.parameters)}
    with open_channel(given.address, given.certificate, given.key, given.ca) as channel:
        client = Client(channel, given.actor)
        try:
            run_id = client.start(client.workflow_id(given.workflow), parameters, text)
            run = client.wait(run_id)
            files = client.fetch(run_id, given.folder)
        except grpc.RpcError as error:
            reason, fields, _ = details_of(error)
            sys.exit(f"{error.code().name} {reason}".rstrip() + f": {error.details()} {fields or ''}".rstrip())
    status = runs_pb2.RunStatus.Name(run.summary.status).removeprefix("RUN_STATUS_").lower()
    print(f"{run_id} is {status}: {run.result or run.error.message}", *files, sep="\n")
    sys.exit(status != "completed")


if __name__ == "__main__":
    main()
