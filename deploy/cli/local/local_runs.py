"""Runs of the workflow in a file, in a temporary deployment."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from backend.common.errors import ApiError
from backend.common.json_text import parse
from backend.isolation.sandbox import Sandbox
from backend.services.workflows.parameters import effective_parameters
from backend.services.workflows.rules import connectors
from deploy.cli.approvals import print_material
from deploy.cli.following.follower import Answer, all_events, check_answerable, interruptible
from deploy.cli.following.run_progress import FAILED, LiveLogs, RunProgress, log_lines, show_log
from deploy.cli.local.local_files import InputFolders, watched_files
from deploy.cli.output.printing import Record, print_json
from deploy.cli.output.records import RawJson, record_of
from deploy.cli.output.terminal import duration_text, in_status_colour, printable, shows_colours
from deploy.cli.run_inputs import file_of, read_parameters
from deploy.cli.run_outputs import download_outputs, list_outputs, size_text
from deploy.cli.run_start import opened, start_request, steps_of, workflow_definition
from deploy.client.backend import in_process
from deploy.client.manifests import STANDARD_INPUT, read_manifests
from deploy.client.nearby_manifests import named_documents, nearby_manifests
from deploy.client.variables import NONE_GIVEN, read_variables, unused_warnings
from deploy.config.settings import Settings
from deploy.failures import CommandError
from deploy.serve.temporary import default_cache, temporary_deployment
from workflow_api.v1 import reviews_pb2, runs_pb2, workflows_pb2

_FOLLOW_SECONDS: Final = 0.03
_BUILD_SECONDS: Final = 0.02
_QUIET_SECONDS: Final = 0.3
"""Time after which waiting for packages is announced; finding built packages takes less."""
_BEING_BUILT: Final = "being built"
_ENDS_LOG: Final = frozenset({FAILED, "step.completed", "segment.ended"})


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of `workflow-api run`; `umask` applies to files written for the person."""

    workflow: str
    parameters: Sequence[str]
    input_text: str | None
    folders: Mapping[str, Path]
    out: Path | None
    answer: Answer
    logs: bool
    as_json: bool
    umask: int
    variable_files: Sequence[Path] = ()
    assignments: Sequence[tuple[str, str]] = ()


class LocalRuns:
    """A temporary deployment that runs the workflow of some files, once or repeatedly."""

    def __init__(
        self, settings: Settings, files: list[str], options: RunOptions, open_sandbox: Callable[[], Sandbox]
    ) -> None:
        self._settings = settings
        self._open_sandbox = open_sandbox
        self._files = files
        self._options = options
        self._open = ExitStack()
        self._places: list[str] = []
        self._failures: list[Record] = []
        self._variables = NONE_GIVEN

    def __enter__(self) -> Self:
        # Folders are served before their parameters are known, so each has a prefix by its position.
        self._storage = InputFolders(self._options.folders, self._open)
        secrets = self._storage.secrets
        cache = default_cache(os.environ)
        deployment = temporary_deployment(self._settings, cache, self._open_sandbox, secrets)
        handlers = self._open.enter_context(deployment)
        self._backend = in_process(handlers)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def watched(self) -> Iterator[Path]:
        """Yields the files whose change causes a new run: the given files, and files that manifests or options name."""
        given = [Path(name) for name in self._files if name != STANDARD_INPUT]
        values = (assignment.partition("=")[2] for assignment in self._options.parameters)
        named = [file_of(value) for value in (*values, self._options.input_text or "")]
        others = [*self._options.folders.values(), *(path for path in named if path is not None)]
        return watched_files(given, [*others, *self._options.variable_files], self._variables.values)

    def run(self) -> bool:
        """Applies the files, runs the workflow and shows its end.

        Returns whether the run completed with a result that fits its schema.

        Raises:
            CommandError: the files, the parameters or the workflow do not allow a run.
        """
        definition = self._apply()
        fields = record_of(definition)["definition"].value()
        # Parameters are checked before slow work: tests of connectors over the network, and builds of packages.
        request = self._request(definition.workflow.workflow_id, fields["parameters"])
        check_answerable(self._options.answer, [each["step"] for each in fields["steps"] if each.get("approval")])
        for connector in connectors(fields):
            self._test_connector(connector, fields["parameters"])
        self._wait_until_ready(definition.workflow.name)
        started = self._backend.call(self._backend.runs.StartRun, request).run
        self._failures.clear()
        run = opened(self._backend, self._follow(started))
        outputs = list_outputs(self._backend, run.summary.run_id)
        record = record_of(run)
        written = self._write_outputs(run.summary.run_id)
        if self._options.as_json:
            files = [str(path) for path in written]
            items = record_of(outputs)["items"]
            print_json({**record, "outputs": items, "files": files, "failures": self._failures})
        else:
            self._show_end(record, record_of(outputs)["items"], written)
        return run.summary.status == runs_pb2.RUN_STATUS_COMPLETED and not run.HasField("result_error")

    def _apply(self) -> workflows_pb2.WorkflowDefinition:
        """Applies the files, and documents that they need from neighbouring files; returns the workflow to run."""
        self._variables = read_variables(self._options.variable_files, self._options.assignments)
        variables = self._variables.values
        files = read_manifests(self._files, variables)
        name = self._workflow_of(list(named_documents("Workflow", files, variables)))
        nearby = nearby_manifests(files, variables)
        backend = self._backend
        applied = backend.call(backend.workflows.ApplyManifests, self._apply_request([*files, *nearby.files]))
        for warning in unused_warnings(self._variables.unused(applied.used_variables)):
            self._note(warning)
        places = [f"{kind} {name} from {os.path.relpath(place)}" for (kind, name), place in nearby.places]
        if not self._options.as_json and places != self._places:
            self._places = places
            for place in places:
                self._note(place)
        status = workflows_pb2.WORKFLOW_STATUS_ACTIVE
        backend.call(
            backend.workflows.UpdateWorkflowStatus,
            workflows_pb2.UpdateWorkflowStatusRequest(workflow=name, status=status),
        )
        definition = workflow_definition(backend, name, None)
        fields = record_of(definition)["definition"].value()
        self._storage.serve(
            fields["parameters"], named_documents("Connector", [*files, *nearby.files], variables), backend
        )
        return definition

    def _apply_request(self, files: Sequence[workflows_pb2.ManifestFile]) -> workflows_pb2.ApplyManifestsRequest:
        given = self._variables
        return workflows_pb2.ApplyManifestsRequest(files=files, variables=given.texts, text_variables=given.quoted)

    def _request(self, workflow_id: str, declared: Sequence[Record]) -> runs_pb2.StartRunRequest:
        """Returns the request that the options ask for, checked by the rules of a start."""
        parameters = read_parameters([*self._options.parameters, *self._storage.assignments], declared)
        check_parameters(parameters, declared)
        return start_request(workflow_id, parameters=parameters, input_text=self._options.input_text)

    def _wait_until_ready(self, name: str) -> None:
        """Waits until the packages of a workflow are built, and says so if that takes a moment."""
        noted_at = time.monotonic() + _QUIET_SECONDS
        noted = False
        while not (definition := workflow_definition(self._backend, name, None)).workflow.readiness.ready:
            reasons = list(definition.workflow.readiness.reasons)
            if not any(_BEING_BUILT in reason for reason in reasons):
                raise CommandError(
                    f"The workflow {name} cannot run:", code="workflow_not_ready", details={"reasons": reasons}
                )
            if not noted and time.monotonic() > noted_at:
                noted = True
                if not self._options.as_json:
                    self._note("\n".join(reasons))
            time.sleep(_BUILD_SECONDS)

    def _workflow_of(self, names: list[str]) -> str:
        wanted = self._options.workflow
        if wanted and wanted not in names and names:
            raise CommandError(f"--workflow: the files have no workflow {wanted!r}, but {_listed(names)}.")
        if wanted:
            return wanted
        if len(names) > 1:
            raise CommandError(f"The files have several workflows: choose one with --workflow, of {_listed(names)}.")
        if not names:
            # The service reports why the file cannot be read, with its line.
            files = read_manifests(self._files, self._variables.values)
            self._backend.call(self._backend.workflows.ApplyManifests, self._apply_request(files))
            raise CommandError("The files have no document of kind Workflow.")
        return names[0]

    def _test_connector(self, name: str, declared: Sequence[Record]) -> None:
        request = workflows_pb2.TestConnectorRequest(name=name)
        try:
            outcome = self._backend.call(self._backend.workflows.TestConnector, request)
        except CommandError as failed:
            if failed.code != "not_found":
                raise
            return
        if not outcome.passed:
            read = [each["name"] for each in declared if each["type"] == "s3_prefix" and each["connector"] == name]
            hint = f" To read a folder in its place, give --input {read[0]}=DIR." if read else ""
            message = outcome.message.rstrip(".")
            raise CommandError(f"The connector {name} cannot be used. {message}.{hint}")

    def _follow(self, run: runs_pb2.Run) -> runs_pb2.Run:
        backend, run_id = self._backend, run.summary.run_id
        latest = [run]
        progress = RunProgress([step["step"] for step in steps_of(backend, run_id)], quiet=self._options.as_json)
        logs = LiveLogs(backend, run_id, progress) if self._options.logs and not self._options.as_json else None

        def on_round(run: runs_pb2.Run) -> None:
            latest[0] = run
            if logs is not None:
                logs.show_if_due()

        with interruptible() as check, progress.shown():
            for event in all_events(backend, run_id, check, seconds=_FOLLOW_SECONDS, on_run=on_round):
                if logs is not None and event["type"] in _ENDS_LOG:
                    logs.show()
                progress.on_event(event)
                if event["type"] == FAILED and self._options.as_json:
                    self._keep_log(run_id, event)
                elif event["type"] == FAILED and logs is None:
                    show_log(backend, run_id, event, progress)
                if event["type"] == "segment.ended":
                    self._decide(progress, run_id)
            progress.on_steps(steps_of(backend, run_id))
        return latest[0]

    def _keep_log(self, run_id: str, event: Record) -> None:
        """Keeps the log of a failed attempt for the printed record: the temporary deployment is deleted at the end."""
        lines = log_lines(self._backend, run_id, event)
        attempt = event["data"].value()["attempt"]
        self._failures.append({"step": event["step"], "attempt": attempt, "log": "\n".join(lines)})

    def _decide(self, progress: RunProgress, run_id: str) -> None:
        """Decides on every approval that the parked run waits for."""
        backend = self._backend
        waiting = backend.call(backend.runs.ListRunApprovals, runs_pb2.ListRunApprovalsRequest(run_id=run_id)).items
        for approval in waiting:
            with progress.paused():
                approve = self._options.answer(approval, partial(self._show_material, approval.approval_id))
            request = runs_pb2.DecideApprovalRequest(approval_id=approval.approval_id, approve=approve)
            backend.call(backend.runs.DecideApproval, request)

    def _show_material(self, approval_id: str) -> None:
        """Prints the material for a decision."""
        request = reviews_pb2.GetReviewRequest(approval_id=approval_id)
        # Sweeping large material for personal data takes longer than a call may take.
        while (review := self._backend.call(self._backend.reviews.GetReview, request)).preparing:
            time.sleep(_FOLLOW_SECONDS)
        if review.HasField("material"):
            print_material(record_of(review)["material"])

    def _write_outputs(self, run_id: str) -> list[Path]:
        if self._options.out is None:
            return []
        private = os.umask(self._options.umask)
        try:
            return download_outputs(self._backend, run_id, self._options.out)
        finally:
            os.umask(private)

    def _show_end(self, record: Record, outputs: list[dict[str, Any]], written: list[Path]) -> None:
        for warning in record["warnings"]:
            self._note(f"warning: {warning}")
        if record["result_error"]:
            self._note(f"result: {record['result_error']['message']}")
        if record.get("error"):
            self._note(f"{record['error']['code']}: {record['error']['message']}")
        for path in written:
            self._note(f"wrote {path}")
        # The result is printed, so its file is not listed.
        files = [output for output in outputs if output["step"] is not None]
        if files and not written:
            size = size_text(sum(output["size_bytes"] for output in files))
            count = "1 file" if len(files) == 1 else f"{len(files)} files"
            self._note(f"{count}, {size}: --out DIR keeps what the steps left")
        took = "" if record["duration_ms"] is None else f" in {duration_text(record['duration_ms'])}"
        status = in_status_colour(record["status"], record["status"], colours=shows_colours(sys.stderr))
        print(f"{status}{took}", file=sys.stderr, flush=True)
        result = record["result"]
        if isinstance(result, RawJson):
            print(_pretty(result), flush=True)

    def _note(self, text: str) -> None:
        print(printable(text, lines=True), file=sys.stderr, flush=True)


def check_parameters(parameters: str, declared: Sequence[Mapping[str, Any]]) -> None:
    """Checks a JSON object by the rules of a start.

    Raises:
        CommandError: values do not fit their declarations; the details name every problem.
    """
    try:
        effective_parameters(declared, parse(parameters))
    except ApiError as refusal:
        folders = {each["name"] for each in declared if each["type"] == "s3_prefix"}
        hints = {name: f": give --input {name}=DIR to read a folder" for name in folders}
        problems = [{"name": name, "reason": f"{reason}{hints.get(name, '')}"} for name, reason in refusal.problems]
        raise CommandError(refusal.message, code="invalid_parameters", details=problems) from None


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)


def _pretty(result: RawJson) -> str:
    try:
        return printable(json.dumps(result.value(), indent=2, ensure_ascii=False), lines=True)
    except (ValueError, RecursionError):
        return printable(result.text)
