"""The runs service with the real runtime behind it: real database, real objects, real sandboxes."""

import json
import os
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.common.secrets import Secrets
from backend.isolation.sandbox import Sandbox, choose_sandbox
from backend.resources.graphs.graphs import Graphs
from backend.resources.models import Models
from backend.resources.redaction.confined_redactor import ConfinedRedactor
from backend.runtime.bootstrap import new_local_runtime, new_package_store, new_publisher
from backend.runtime.engines.local import LocalEngine
from backend.runtime.local import LocalRuntime
from backend.services.dependencies import Services
from backend.services.run_changes import RunChanges
from backend.services.runs.servicer import RunsServicer
from backend.services.uploads.staging import Uploads
from backend.settings import BackendSettings
from backend.storage.retention import RetentionJob
from tests.services.calls import Caller
from tests.services.conftest import TestClock
from tests.services.described import assert_described
from tests.services.runs.world import World
from tests.support.poll import until
from tests.support.wheels import package_settings
from workflow_api.v1 import deployment_pb2, runs_pb2

TERMINAL = ("completed", "failed", "cancelled")

# Of this process alone, so that sleepers of other tests at the same time are not taken for its own.
SLEEP_SECONDS = 100_000 + os.getpid()

OF_REDACTORS = {"secrets", "models", "redaction"}
"""Settings with which a runtime has a redactor of its own."""

AGENTS = {
    "echo": """
        def run(context):
            return {"step": context.parameters.get("step"), "needs": context.needs}
    """,
    "large": """
        def run(context):
            return {"text": "x" * 262_144}
    """,
    "name": """
        def run(context):
            return sorted(context.needs)
    """,
    "fail": """
        def run(context):
            raise ValueError("no luck")
    """,
    "third": """
        def run(context):
            print("attempt", context.attempt)
            (context.outputs / f"{context.attempt}.txt").write_text("left")
            if context.attempt < 3:
                raise ValueError(f"not at attempt {context.attempt}")
            return context.attempt
    """,
    "reader": """
        def run(context):
            files = {}
            for path in sorted(context.files.rglob("*")):
                if path.is_file():
                    files[path.relative_to(context.files).as_posix()] = path.read_text()
            return {"steps": sorted(path.name for path in context.files.iterdir()), "files": files}
    """,
    "writer": """
        def run(context):
            (context.outputs / "notes").mkdir()
            (context.outputs / "notes" / "a.txt").write_text(context.input_text or "")
            (context.outputs / "table.csv").write_text("a,b")
            return {"words": 3, "summary_markdown": "# Three"}
    """,
    "chatty": """
        def run(context):
            for number in range(20):
                context.progress("at", number=number)
            return 1
    """,
    "waiter": """
        import time
        def run(context):
            context.progress("began")
            time.sleep(0.4)
    """,
    "printer": """
        import time
        def run(context):
            print("a line of the log")
            (context.outputs / "a.txt").write_text("x")
            context.progress("began")
            time.sleep(0.4)
    """,
    "marked": """
        import subprocess
        def run(context):
            context.progress("began")
            subprocess.run(["/bin/sh", "-c", "sleep 600; true", context.input_text])
    """,
    "sleeper": """
        import subprocess
        def run(context):
            context.progress("began")
            subprocess.run(["/bin/sh", "-c", "sleep SECONDS & sleep SECONDS"])
    """.replace("SECONDS", str(SLEEP_SECONDS)),
}


def manifest(name: str, steps: list[dict[str, Any]], **fields: Any) -> str:
    """A workflow; JSON is YAML too."""
    return json.dumps({"kind": "Workflow", "name": name, "status": "active", "steps": steps, **fields})


def agent_step(step: str, agent: str = "echo", *needs: str, **fields: Any) -> dict[str, Any]:
    return {"step": step, "agent": agent, "environment": "standard", "needs": list(needs), **fields}


def gate(step: str, *needs: str) -> dict[str, Any]:
    return {"step": step, "approval": {"title": f"Look at {step}", "instructions": "Well?"}, "needs": list(needs)}


class RuntimeWorld(World):
    """A world whose runs really run."""

    def __init__(
        self,
        services: Services,
        clock: TestClock,
        folder: Path,
        sandbox: Sandbox | None = None,
        redactor: ConfinedRedactor | None = None,
    ) -> None:
        super().__init__(services, clock, folder)
        self._sandbox = sandbox
        self._redactor = redactor
        documents = [
            json.dumps({"kind": "Agent", "name": name, "type": "python", "code": textwrap.dedent(code)})
            for name, code in AGENTS.items()
        ]
        self.apply("\n---\n".join(documents))
        self.work = folder / "data" / "work"
        self.local_runtime = self.new_runtime(folder / "data")

    def new_runtime(self, data: Path, **settings: Any) -> LocalRuntime:
        """A runtime as a new process would have it, which this world's service uses from now on."""
        self.graphs = Graphs(data / "graphs", Secrets())
        shared = None if "sandbox" in settings else self._sandbox
        services, given = self.services, BackendSettings(data=data, **{"packages": package_settings(data), **settings})
        redactor = self.redactor = self._redactor_of(given, settings)
        publisher = new_publisher(given, services, self.objects, self.graphs, redactor)
        upkeep = RetentionJob(services.database, services.clock)
        runtime = new_local_runtime(
            given,
            services,
            self.objects,
            publisher,
            redactor,
            new_package_store(given),
            upkeep,
            None if shared is None else lambda: shared,
        )
        self.servicer = RunsServicer(
            self.services,
            runtime,
            RunChanges(self.services.database),
            Uploads(self.services, self.objects, data / "uploads"),
        )
        self.runs = Caller(self.servicer, runs_pb2.DESCRIPTOR.services_by_name["RunsService"])
        return runtime

    def _redactor_of(self, given: BackendSettings, settings: dict[str, Any]) -> ConfinedRedactor:
        if self._redactor is not None and not settings.keys() & OF_REDACTORS:
            return self._redactor
        scratch = Path(tempfile.mkdtemp(prefix="redaction-"))
        return ConfinedRedactor(Models(given.secrets, given.models), scratch=scratch, limits=given.redaction)

    @property
    def engine(self) -> LocalEngine:
        """The engine of the runtime that was started."""
        session = self.local_runtime.executor.sessions.current
        assert session is not None
        return session.engine

    def run(
        self, name: str, steps: list[dict[str, Any]], *, workflow: dict[str, Any] | None = None, **fields: Any
    ) -> str:
        """Starts a run of a workflow made for it."""
        self.workflows |= self.apply(manifest(name, steps, **(workflow or {})))
        return self.started(name, **fields)

    def hold_licence(self) -> None:
        self.deployment("UpdateDeployment", deployment_pb2.UpdateDeploymentRequest(licence_state="hold"))

    def status(self, run_id: str) -> str:
        return str(self.row(run_id).status)

    def until_status(self, run_id: str, *statuses: str) -> Any:
        until(lambda: self.status(run_id) in statuses, f"one of {statuses}")
        return self.row(run_id)

    def until_ended(self, run_id: str) -> Any:
        return self.until_status(run_id, *TERMINAL)

    def board(self, run_id: str) -> dict[str, str]:
        """The status of each step."""
        names = runs_pb2.StepStatus.Name
        prefix = "STEP_STATUS_"
        return {name: names(step.status).removeprefix(prefix).lower() for name, step in self.steps(run_id).items()}

    def until_event(self, run_id: str, event_type: str) -> None:
        until(lambda: event_type in self.event_types(run_id), event_type)

    def approvals(self, run_id: str) -> dict[str, str]:
        """Step to approval id of what waits for a person."""
        answer = self.runs("ListRunApprovals", runs_pb2.ListRunApprovalsRequest(run_id=run_id), self.key)
        return {item.step: item.approval_id for item in answer.items}

    def get(self, run_id: str, key: str | None = "") -> runs_pb2.Run:
        return assert_described(super().get(run_id, key))

    def events(self, run_id: str, **fields: Any) -> runs_pb2.ListRunEventsResponse:
        return assert_described(super().events(run_id, **fields))

    def all_events(self, run_id: str) -> list[list[runs_pb2.Event]]:
        """The events of each segment."""
        segments = self.events(run_id).segments
        return [list(self.events(run_id, segment=segment.segment_id, page_size=500).events) for segment in segments]


@pytest.fixture(autouse=True)
def _no_authorities(no_authorities: None) -> None:
    """Makes clients of models faster to create."""


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """A sandbox that stays open when a runtime closes it, so that the next test finds its templates started."""
    sandbox = choose_sandbox("auto")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sandbox, "close", lambda: None)
        yield sandbox
    sandbox.close()


@pytest.fixture(scope="session")
def shared_redactor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConfinedRedactor]:
    """A redactor that stays open when a runtime closes it, so that the next test finds its processes started."""
    redactor = ConfinedRedactor(Models(Secrets(), {}), scratch=tmp_path_factory.mktemp("redaction"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(redactor, "close", lambda: None)
        yield redactor
    redactor.close()


@pytest.fixture
def own_redactor(tmp_path: Path) -> Iterator[ConfinedRedactor]:
    """A redactor that a test closes: its world and its desk have this one instead of the shared one."""
    redactor = ConfinedRedactor(Models(Secrets(), {}), scratch=tmp_path / "redaction")
    yield redactor
    redactor.close()


@pytest.fixture
def world_redactor(request: pytest.FixtureRequest, shared_redactor: ConfinedRedactor) -> ConfinedRedactor:
    own: ConfinedRedactor | None = None
    if "own_redactor" in request.fixturenames:
        own = request.getfixturevalue("own_redactor")
    return own or shared_redactor


@pytest.fixture
def idle_world(
    services: Services, clock: TestClock, tmp_path: Path, sandbox: Sandbox, world_redactor: ConfinedRedactor
) -> Iterator[RuntimeWorld]:
    """A world whose runtime was not started."""
    world = RuntimeWorld(services, clock, tmp_path, sandbox, world_redactor)
    yield world
    world.local_runtime.stop()


@pytest.fixture
def world(idle_world: RuntimeWorld) -> RuntimeWorld:
    idle_world.local_runtime.start()
    return idle_world
