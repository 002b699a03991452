"""Packages of environments, from the manifest to the step that imports them."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from backend.isolation.sandbox import interpreter
from backend.resources.environments.builder import PackageBuilder
from backend.resources.environments.lock import interpreter_tag
from backend.resources.environments.store import PackageStore
from backend.services.workflows import resources_sql
from backend.services.workflows.deletion import LockRetention
from backend.services.workflows.environments_servicer import EnvironmentsServicer
from backend.services.workflows.resolved_workflow import load_workflow
from backend.storage.statements import ScalarQuery
from backend.storage.tables.workflows import environment_locks
from tests.services.calls import Caller, RefusedError
from tests.services.runtime.conftest import RuntimeWorld, agent_step, manifest
from tests.support.poll import until
from tests.support.wheels import make_wheel, package_settings
from workflow_api.v1 import environments_pb2

FAILED = environments_pb2.ENVIRONMENT_BUILD_STATE_FAILED
BUILT = environments_pb2.ENVIRONMENT_BUILD_STATE_BUILT
BUILDING_NOW = environments_pb2.ENVIRONMENT_BUILD_STATE_BUILDING
AGENT = "import alpha\ndef run(context):\n    return {'version': alpha.VERSION}\n"
LOCKS = ScalarQuery[int](select(func.count()).select_from(environment_locks))
BUILDING = ["Environment 'tables' is being built."]


class Packages:
    """A world with a workflow whose step imports the package `alpha`; its runtime was not started."""

    def __init__(self, world: RuntimeWorld) -> None:
        self.world = world
        self.wheels = world.folder / "data" / "wheels"
        self.environments = Caller(
            EnvironmentsServicer(world.services), environments_pb2.DESCRIPTOR.services_by_name["EnvironmentsService"]
        )

    def build(self) -> environments_pb2.EnvironmentBuild:
        request = environments_pb2.GetEnvironmentBuildRequest(name="tables")
        answer: environments_pb2.EnvironmentBuild = self.environments("GetEnvironmentBuild", request)
        return answer

    def apply(self, *packages: str, upgrade: bool = False, dry_run: bool = False, **python: Any) -> None:
        environment = {"kind": "Environment", "name": "tables", "python": {"packages": list(packages), **python}}
        agent = {"kind": "Agent", "name": "uses-alpha", "type": "python", "code": AGENT}
        step = {**agent_step("use", "uses-alpha"), "environment": "tables"}
        workflow = manifest("Uses", [step], result={"step": "use"})
        documents = "\n---\n".join([json.dumps(environment), json.dumps(agent), workflow])
        self.world.workflows |= self.world.apply(documents, upgrade_packages=upgrade, dry_run=dry_run)

    def reasons(self, version: int | None = None) -> list[str]:
        services, workflow = self.world.services, self.world.workflows["Uses"]
        terms = services.database.snapshot(
            lambda tx: load_workflow(services.cache, tx, services.capabilities, workflow, version)
        )
        assert terms is not None
        return list(terms.reasons)

    def until_ready(self) -> None:
        until(lambda: self.reasons() == [], "a ready workflow")

    def log(self) -> str:
        """What was said in the build of the one machine."""
        (machine,) = self.build().machines
        request = environments_pb2.GetEnvironmentBuildLogRequest(name="tables", machine=machine.machine)
        return str(self.environments("GetEnvironmentBuildLog", request).text)

    def stored(self) -> dict[str, Any]:
        row = self.world.services.database.read(lambda tx: resources_sql.resource(tx, "environment", "tables"))
        assert row is not None
        return {**json.loads(row.definition)["python"], "of_version": row.version}

    def used_version(self, **fields: Any) -> str:
        """Runs the workflow, and returns the version of the package that its step imported."""
        row = self.world.until_ended(self.world.started("Uses", **fields))
        assert row.status == "completed", row
        return str(json.loads(row.result)["version"])


@contextmanager
def another_process_builds(folder: Path, digest: str) -> Iterator[None]:
    """Holds the lock by which processes exclude one another from building the same packages."""
    file = folder / interpreter_tag() / f"{digest}.lock"
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


@pytest.fixture
def packages(idle_world: RuntimeWorld) -> Packages:
    return Packages(idle_world)


def test_a_workflow_is_ready_once_its_packages_are_built_and_its_steps_import_them(packages: Packages) -> None:
    make_wheel(packages.wheels, "alpha", "1.5")
    packages.apply("alpha>=1", preload=["alpha"])
    assert packages.reasons() == BUILDING
    packages.world.local_runtime.start()
    packages.until_ready()
    assert packages.used_version() == "1.5"


def test_a_dry_run_resolves_packages_and_stores_no_lock(packages: Packages) -> None:
    make_wheel(packages.wheels, "alpha", "1.0")
    with pytest.raises(RefusedError) as refused:
        packages.apply("beta", dry_run=True)
    assert list(refused.value.problems) == ["test.yaml:1: python.packages[0]"]
    packages.apply("alpha", dry_run=True)
    database = packages.world.services.database
    assert database.read(lambda tx: resources_sql.resource(tx, "environment", "tables")) is None
    assert database.read(lambda tx: tx.scalar(LOCKS)) == 0


def test_a_version_keeps_its_lock_until_its_packages_change(packages: Packages) -> None:
    make_wheel(packages.wheels, "alpha", "1.0")
    packages.apply("alpha")
    packages.world.local_runtime.start()
    packages.until_ready()
    make_wheel(packages.wheels, "alpha", "2.0")
    packages.apply("alpha")
    assert packages.stored()["versions"] == ["alpha==1.0"]
    assert packages.stored()["of_version"] == 1
    packages.apply("alpha>=1")
    assert packages.stored()["versions"] == ["alpha==2.0"]
    make_wheel(packages.wheels, "alpha", "3.0")
    packages.apply("alpha>=1")
    assert packages.stored()["versions"] == ["alpha==2.0"]
    packages.until_ready()
    assert packages.used_version() == "2.0"
    assert packages.used_version(version=1) == "1.0"


def test_a_lock_that_no_version_uses_is_removed_after_a_day(packages: Packages) -> None:
    def locks_after_a_day() -> int:
        packages.world.clock.advance(days=1, seconds=1)
        database = packages.world.services.database
        rule, now = LockRetention(), packages.world.clock()
        while database.write(lambda tx: rule.delete_batch(tx, now)):
            pass
        return database.read(lambda tx: tx.scalar(LOCKS)) or 0

    make_wheel(packages.wheels, "alpha")
    make_wheel(packages.wheels, "beta")
    environment = "kind: Environment\nname: tables\npython: {packages: [%s]}\n"
    packages.world.apply(environment % "beta")
    assert locks_after_a_day() == 1, "the newest version of an environment has it"
    packages.apply("alpha")
    assert locks_after_a_day() == 1
    packages.world.apply(environment % "'beta>=1'")
    assert locks_after_a_day() == 2, "a version of a workflow uses the former one"
    packages.world.apply(environment % "'beta>=0'")
    assert packages.stored()["versions"] == ["beta==1.0"]
    assert locks_after_a_day() == 2, "the same lock again"


def test_newer_releases_are_taken_when_an_administrator_asks(packages: Packages) -> None:
    make_wheel(packages.wheels, "alpha", "1.0")
    packages.apply("alpha")
    packages.apply("alpha", upgrade=True)
    assert (packages.stored()["versions"], packages.stored()["of_version"]) == (["alpha==1.0"], 1)
    make_wheel(packages.wheels, "alpha", "2.0")
    packages.apply("alpha", upgrade=True)
    assert (packages.stored()["versions"], packages.stored()["of_version"]) == (["alpha==2.0"], 2)


def test_a_build_that_failed_says_why_and_is_tried_again_after_a_while(packages: Packages) -> None:
    wheel = make_wheel(packages.wheels, "alpha")
    packages.apply("alpha")
    wheel.rename(wheel.with_suffix(".away"))
    packages.world.local_runtime.start()
    until(lambda: packages.reasons() not in ([], BUILDING), "a reason")
    assert packages.reasons()[0].startswith("Environment 'tables' cannot be built: ")
    assert "alpha" in packages.reasons()[0]
    wheel.with_suffix(".away").rename(wheel)
    packages.world.clock.advance(seconds=301)
    packages.until_ready()


def test_a_build_that_a_clock_ahead_asked_for_says_why_it_failed(packages: Packages) -> None:
    wheel = make_wheel(packages.wheels, "alpha")
    packages.world.clock.advance(seconds=600)
    packages.apply("alpha")
    wheel.unlink()
    packages.world.clock.advance(seconds=-600)
    packages.world.local_runtime.start()
    until(lambda: packages.build().state == FAILED, "a failure")
    assert packages.reasons()[0].startswith("Environment 'tables' cannot be built: ")


def test_a_build_that_failed_by_a_clock_ahead_is_tried_again_at_once(packages: Packages) -> None:
    wheel = make_wheel(packages.wheels, "alpha")
    packages.apply("alpha")
    wheel.rename(wheel.with_suffix(".away"))
    packages.world.clock.advance(seconds=600)
    packages.world.local_runtime.start()
    until(lambda: packages.build().state == FAILED, "a failure")
    wheel.with_suffix(".away").rename(wheel)
    packages.world.clock.advance(seconds=-600)
    packages.until_ready()


@pytest.mark.parametrize("ahead_hours", [1 / 6, 2])
def test_after_a_clock_that_was_ahead_unused_packages_are_removed_within_the_hour(
    packages: Packages, ahead_hours: float
) -> None:
    services, clock = packages.world.services, packages.world.clock
    folder = packages.world.folder / "data"
    left = folder / "packages" / "scratch" / "resolve-old"
    store = PackageStore(package_settings(folder), folder / "packages", interpreter.executable)
    builder = PackageBuilder(services.database, clock, store, "here", lambda _: None)

    def is_removed() -> bool:
        left.mkdir(parents=True, exist_ok=True)
        os.utime(left, (0, 0))
        builder.round()
        return not left.exists()

    clock.advance(hours=ahead_hours)
    assert is_removed()
    clock.advance(hours=-ahead_hours)
    assert (is_removed(), is_removed()) == (True, False)
    builder.stop()


def test_a_build_that_failed_is_tried_again_when_an_administrator_asks(packages: Packages) -> None:
    wheel = make_wheel(packages.wheels, "alpha")
    packages.apply("alpha")
    wheel.rename(wheel.with_suffix(".away"))
    packages.world.local_runtime.start()
    until(lambda: packages.build().state == FAILED, "a failure")
    failed = packages.build()
    assert "cannot be built" in failed.message
    log = packages.log()
    assert "alpha" in log
    assert str(packages.wheels) not in log, "folders of the machine are not shown"
    assert [(one.state, one.message) for one in failed.machines] == [(FAILED, failed.machines[0].message)]
    wheel.with_suffix(".away").rename(wheel)
    packages.world.clock.advance(seconds=1)
    asked = packages.environments("BuildEnvironment", environments_pb2.BuildEnvironmentRequest(name="tables"))
    assert asked.state == BUILDING_NOW
    packages.until_ready()
    built = packages.build()
    assert (built.state, built.message) == (BUILT, "")
    assert "alpha==1.0" in packages.log()
    assert (list(built.packages), list(built.locked)) == (["alpha"], ["alpha==1.0"])


def test_a_machine_that_has_begun_no_build_has_no_log(packages: Packages) -> None:
    make_wheel(packages.wheels, "alpha")
    packages.apply("alpha")
    request = environments_pb2.GetEnvironmentBuildLogRequest(name="tables", machine="elsewhere")
    with pytest.raises(RefusedError) as refused:
        packages.environments("GetEnvironmentBuildLog", request)
    assert refused.value.reason == "not_found"


def test_an_unknown_environment_is_not_found(packages: Packages) -> None:
    with pytest.raises(RefusedError) as refused:
        packages.environments("BuildEnvironment", environments_pb2.BuildEnvironmentRequest(name="none"))
    assert (refused.value.reason, refused.value.message) == ("not_found", "There is no environment named none.")


def test_packages_that_cannot_be_resolved_are_told_with_file_line_and_field(packages: Packages) -> None:
    make_wheel(packages.wheels, "alpha")
    manifest_text = """
kind: Environment
name: tables
python:
  packages:
    - alpha
    - alhpa>=1
"""
    with pytest.raises(RefusedError) as refused:
        packages.world.apply(manifest_text)
    ((place, reason),) = refused.value.problems.items()
    assert place.endswith(":7: python.packages[1]")
    assert "alhpa was not found" in reason


def test_a_module_to_preload_that_no_package_has_is_told_with_its_field(packages: Packages) -> None:
    make_wheel(packages.wheels, "alpha")
    packages.apply("alpha", preload=["json", "alpha", "alhpa"])
    packages.world.local_runtime.start()
    until(lambda: packages.reasons() != BUILDING, "what became of the build")
    assert packages.reasons() == [
        "Environment 'tables' cannot preload 'alhpa' (python.preload[2]): its packages have no such module, but alpha."
    ]


def test_a_worker_without_the_packages_builds_them_before_the_step(packages: Packages) -> None:
    make_wheel(packages.wheels, "alpha")
    packages.apply("alpha")
    packages.world.local_runtime.start()
    packages.until_ready()
    packages.world.local_runtime.stop()
    elsewhere = packages.world.folder / "elsewhere"
    make_wheel(elsewhere / "wheels", "alpha")
    other = packages.world.new_runtime(elsewhere, packages=package_settings(elsewhere))
    other.start()
    try:
        assert packages.used_version() == "1.0"
    finally:
        other.stop()
    assert list(elsewhere.glob("packages/*/*/built.json"))


def test_a_step_that_waits_for_its_packages_ends_with_its_run_and_the_build_goes_on(packages: Packages) -> None:
    make_wheel(packages.wheels, "alpha")
    packages.apply("alpha")
    packages.world.local_runtime.start()
    packages.until_ready()
    packages.world.local_runtime.stop()
    elsewhere = packages.world.folder / "elsewhere"
    make_wheel(elsewhere / "wheels", "alpha")
    other = packages.world.new_runtime(elsewhere, packages=package_settings(elsewhere))
    try:
        with another_process_builds(elsewhere / "packages", packages.stored()["lock"]):
            other.start()
            waits, ends = packages.world.started("Uses"), packages.world.started("Uses")
            packages.world.until_event(ends, "step.started")
            packages.world.cancel(ends)
            assert packages.world.until_ended(ends).status == "cancelled"
            assert packages.world.status(waits) == "running"
        assert packages.world.until_ended(waits).status == "completed"
    finally:
        other.stop()


def test_a_step_whose_packages_cannot_be_built_any_more_fails_with_the_reason(packages: Packages) -> None:
    make_wheel(packages.wheels, "alpha")
    packages.apply("alpha")
    packages.world.local_runtime.start()
    packages.until_ready()
    packages.world.local_runtime.stop()
    elsewhere = packages.world.folder / "elsewhere"
    other = packages.world.new_runtime(elsewhere, packages=package_settings(elsewhere))
    other.start()
    try:
        run_id = packages.world.started("Uses")
        assert packages.world.until_ended(run_id).status == "failed"
        (step,) = packages.world.steps(run_id).values()
        assert "the packages of its environment could not be built" in step.error.message
        assert "alpha was not found" in step.error.message
    finally:
        other.stop()


def test_a_requirements_file_that_comes_with_the_manifest_is_locked(packages: Packages) -> None:
    make_wheel(packages.wheels, "alpha")
    make_wheel(packages.wheels, "beta")
    text = "kind: Environment\nname: tables\npython: {packages: [alpha], requirements: r.txt}\n"
    packages.world.apply(text, attached={"r.txt": b"beta  # and more\n"})
    assert packages.stored()["versions"] == ["alpha==1.0", "beta==1.0"]
    with pytest.raises(RefusedError) as refused:
        packages.world.apply(text, attached={"r.txt": b"beta\n./local\n"})
    ((place, reason),) = refused.value.problems.items()
    assert place.endswith(":3: python.requirements")
    assert reason.startswith("r.txt:2: must name a package of the index")
