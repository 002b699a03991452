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
from typing import TYPE_CHECKING, Any, Final, Self

from backend.sandbox import Sandbox
from deploy.cli.approval_answers import Answer
from deploy.cli.approvals import print_material
from deploy.cli.failure_logs import FAILED, show_log
from deploy.cli.following import all_events, interruptible
from deploy.cli.printing import Record, print_json
from deploy.cli.raw_json import RawJson, json_text
from deploy.cli.records import record_of
from deploy.cli.run_inputs import read_parameters
from deploy.cli.run_outputs import download_outputs, list_outputs, size_text
from deploy.cli.run_progress import RunProgress
from deploy.cli.run_start import opened, start_request, steps_of, workflow_definition
from deploy.cli.terminal import in_status_colour, printable, shows_colours
from deploy.cli.times import duration_text
from deploy.client.backend import in_process
from deploy.client.manifests import STANDARD_INPUT, read_manifests
from deploy.client.nearby_manifests import named_documents, nearby_manifests
from deploy.config.settings import Settings
from deploy.failures import CommandFailed
from deploy.serve.temporary import default_cache, temporary_deployment
from workflow_api.v1 import reviews_pb2, runs_pb2, workflows_pb2

if TYPE_CHECKING:
    from deploy.serve.folder_storage import FolderStorage

_FOLLOW_SECONDS: Final = 0.03
_BUILD_SECONDS: Final = 0.1
_BEING_BUILT: Final = "being built"
_ACCESS_KEY: Final = "folders-of-this-run"
"""Name of the secret with which connectors read folders."""
_WATCHED: Final = frozenset({".yaml", ".yml", ".py", ".txt", ".toml"})
_MOST_WATCHED: Final = 2_000


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the options of the command ask for; `umask` is the one that files of the person are written with."""

    workflow: str
    parameters: Sequence[str]
    input_text: str | None
    folders: Mapping[str, Path]
    out: Path | None
    answer: Answer
    as_json: bool
    umask: int


class LocalRuns:
    """A temporary deployment in which the workflow of some files is run, once or again and again."""

    def __init__(
        self, settings: Settings, files: list[str], options: RunOptions, open_sandbox: Callable[[], Sandbox]
    ) -> None:
        self._settings = settings
        self._open_sandbox = open_sandbox
        self._files = files
        self._options = options
        self._open = ExitStack()
        self._places: list[str] = []

    def __enter__(self) -> Self:
        # Folders are known by place before their parameters are: each is served below a prefix of its own.
        self._storage = FoldersAsObjects(self._options.folders, self._open)
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
        """Yields the files whose change is a reason to run again: those given, and sources in the folders of these."""
        given = [Path(name) for name in self._files if name != STANDARD_INPUT]
        yield from given
        beside = (
            path
            for folder in sorted({path.resolve().parent for path in given})
            for path in folder.rglob("*")
            if path.suffix in _WATCHED and not any(part.startswith(".") for part in path.relative_to(folder).parts)
        )
        for _, path in zip(range(_MOST_WATCHED), beside, strict=False):
            yield path

    def run(self) -> bool:
        """Applies the files, runs the workflow and shows what became of it; returns whether the run completed.

        Raises:
            CommandFailed: the files, the parameters or the workflow do not allow a run.
        """
        definition = self._apply()
        declared = record_of(definition)["definition"].value()["parameters"]
        parameters = read_parameters([*self._options.parameters, *self._storage.assignments], declared)
        request = start_request(
            definition.workflow.workflow_id, parameters=parameters, input_text=self._options.input_text
        )
        started = self._backend.call(self._backend.runs.StartRun, request).run
        run = opened(self._backend, self._follow(started))
        outputs = list_outputs(self._backend, run.summary.run_id)
        record = record_of(run)
        written = self._write_outputs(run.summary.run_id)
        if self._options.as_json:
            print_json({**record, "outputs": record_of(outputs)["items"], "files": [str(path) for path in written]})
        else:
            self._show_end(record, record_of(outputs)["items"], written)
        return run.summary.status == runs_pb2.RUN_STATUS_COMPLETED

    def _apply(self) -> workflows_pb2.WorkflowDefinition:
        """Applies the files and what they need from beside them; returns the workflow to run, ready and active."""
        files = read_manifests(self._files)
        name = self._workflow_of(list(named_documents("Workflow", files)))
        nearby = nearby_manifests(files)
        backend = self._backend
        backend.call(
            backend.workflows.ApplyManifests, workflows_pb2.ApplyManifestsRequest(files=[*files, *nearby.files])
        )
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
        self._storage.serve(fields["parameters"], named_documents("Connector", [*files, *nearby.files]), backend)
        for connector in _connectors(fields):
            self._test_connector(connector, fields["parameters"])
        noted = False
        while not (definition := workflow_definition(backend, name, None)).workflow.readiness.ready:
            reasons = list(definition.workflow.readiness.reasons)
            if not any(_BEING_BUILT in reason for reason in reasons):
                raise CommandFailed(
                    f"The workflow {name} cannot run:", code="workflow_not_ready", details={"reasons": reasons}
                )
            if not noted and not self._options.as_json:
                self._note("\n".join(reasons))
            noted = True
            time.sleep(_BUILD_SECONDS)
        return definition

    def _workflow_of(self, names: list[str]) -> str:
        wanted = self._options.workflow
        if wanted and wanted not in names and names:
            raise CommandFailed(f"--workflow: the files have no workflow {wanted!r}, but {_listed(names)}.")
        if wanted:
            return wanted
        if len(names) > 1:
            raise CommandFailed(f"The files have several workflows: choose one with --workflow, of {_listed(names)}.")
        if not names:
            # What keeps the file from being read is told by the service, with its line.
            files = read_manifests(self._files)
            self._backend.call(self._backend.workflows.ApplyManifests, workflows_pb2.ApplyManifestsRequest(files=files))
            raise CommandFailed("The files have no document of kind Workflow.")
        return names[0]

    def _test_connector(self, name: str, declared: Sequence[Record]) -> None:
        request = workflows_pb2.TestConnectorRequest(name=name)
        try:
            outcome = self._backend.call(self._backend.workflows.TestConnector, request)
        except CommandFailed as failed:
            if failed.code != "not_found":
                raise
            return
        if not outcome.passed:
            read = [each["name"] for each in declared if each["type"] == "s3_prefix" and each["connector"] == name]
            hint = f" To read a folder in its place, give --input {read[0]}=DIR." if read else ""
            message = outcome.message.rstrip(".")
            raise CommandFailed(f"The connector {name} cannot be used. {message}.{hint}")

    def _follow(self, run: runs_pb2.Run) -> runs_pb2.Run:
        backend, run_id = self._backend, run.summary.run_id
        latest = [run]
        progress = RunProgress([step["step"] for step in steps_of(backend, run_id)], quiet=self._options.as_json)
        with interruptible() as check, progress.shown():
            for event in all_events(
                backend, run_id, check, seconds=_FOLLOW_SECONDS, on_run=lambda run: latest.__setitem__(0, run)
            ):
                progress.on_event(event)
                if event["type"] == FAILED and not self._options.as_json:
                    show_log(backend, run_id, event, progress)
                if event["type"] == "segment.ended":
                    self._decide(progress, run_id)
            progress.on_steps(steps_of(backend, run_id))
        return latest[0]

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
        """Prints values and files that a decision is about."""
        request = reviews_pb2.GetReviewRequest(approval_id=approval_id)
        # What is large takes longer to sweep for personal data than a call may take.
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
        # Of the result there is a file, too, but it is printed.
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


class FoldersAsObjects:
    """The folders of `--input`, which the connectors of their parameters read as objects."""

    def __init__(self, folders: Mapping[str, Path], opened: ExitStack) -> None:
        self._folders = folders
        self._opened = opened
        self._prefixes: dict[str, Path] = {}
        self._storage: FolderStorage | None = None
        self._served = False
        self.assignments: list[str] = []
        """Values of the parameters, as `--param` gives them."""
        self.secrets: dict[str, str] = {}
        if folders:
            from deploy.serve.folder_storage import folder_storage

            # The prefixes are filled in once the workflow is known, and the server looks at them at each request.
            self._storage = opened.enter_context(folder_storage(self._prefixes))
            key = {
                "access_key_id": self._storage.access_key_id,
                "secret_access_key": self._storage.secret_access_key,
            }
            self.secrets = {_ACCESS_KEY: json.dumps(key)}

    def serve(self, declared: Sequence[Record], connectors: Mapping[str, Any], backend: Any) -> None:
        """Has the connectors of the folders' parameters read the folders; what they may read stays as it is.

        Raises:
            CommandFailed: a folder is given for what is no `s3_prefix` parameter, or its connector is missing.
        """
        if self._storage is None:
            return
        of = {each["name"]: each for each in declared if each["type"] == "s3_prefix"}
        problems = []
        changed: dict[str, dict[str, Any]] = {}
        self.assignments.clear()
        for name, folder in self._folders.items():
            connector = connectors.get(of[name]["connector"]) if name in of else None
            if connector is None:
                allowed = ", ".join(of) or "none"
                reason = "has no connector" if name in of else f"must be an s3_prefix parameter, of {allowed}"
                problems.append({"name": f"--input {name}", "reason": reason})
                continue
            prefixes = connector.get("prefixes") or [""]
            place = f"{connector['bucket']}/{prefixes[0]}{name}/"
            self._prefixes[place] = folder.resolve()
            self.assignments.append(f"{name}=s3://{place}")
            changed[connector["name"]] = {
                **connector,
                "endpoint_url": self._storage.url,
                "secret": _ACCESS_KEY,
                "role_arn": None,
            }
        if problems:
            raise CommandFailed("A folder cannot be used.", code="invalid_request", details=problems)
        content = "\n---\n".join(json_text(each, indented=False, encoding="utf-8") for each in changed.values())
        file = workflows_pb2.ManifestFile(name="--input", content=content)
        backend.call(backend.workflows.ApplyManifests, workflows_pb2.ApplyManifestsRequest(files=[file]))


def _connectors(definition: Mapping[str, Any]) -> list[str]:
    """Returns the connectors that a workflow names."""
    named = [name for step in definition["steps"] for name in step["connectors"]]
    named += [each["connector"] for each in definition["parameters"] if each["type"] == "s3_prefix"]
    return list(dict.fromkeys(named))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)


def _pretty(result: RawJson) -> str:
    try:
        return printable(json.dumps(result.value(), indent=2, ensure_ascii=False), lines=True)
    except (ValueError, RecursionError):
        return printable(result.text)
