"""Templates that have expired: what follows them, also where the next does not start, and how they end."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from backend.isolation.sandbox import Sandbox, SandboxUnavailableError, StepPackages, pool, template
from backend.isolation.sandbox.bubblewrap import Bubblewrap
from backend.isolation.sandbox.layer import TemplateLaunch
from backend.isolation.sandbox.limits import Limits
from backend.isolation.sandbox.pool import MOST_ENVIRONMENTS
from backend.isolation.sandbox.template import Template
from tests.support.poll import LONGEST_WAIT_SECONDS
from tests.unit.backend.isolation.sandbox.steps import LIMITS, Steps, eventually
from tests.unit.backend.isolation.sandbox.templates import IDENTITY, process_of, serving

Change = Callable[[TemplateLaunch], TemplateLaunch]


@contextmanager
def changing_second(change: Change) -> Iterator[Sandbox]:
    """Opens a sandbox in which the second template is launched in another way."""

    class Changing(Bubblewrap):
        launched = 0

        def launch_template(self, limits: Limits) -> TemplateLaunch | None:
            self.launched += 1
            launch = super().launch_template(limits)
            return change(launch) if launch is not None and self.launched == 2 else launch

    layer = Changing()
    try:
        layer.check()
    except SandboxUnavailableError as error:
        pytest.skip(f"the sandbox layer `bwrap` is needed ({error}): provide the package `bubblewrap`")
    sandbox = Sandbox(layer, warm=0)
    yield sandbox
    sandbox.close()


def command(*argv: str) -> Change:
    return lambda launch: replace(launch, launch=replace(launch.launch, argv=argv))


PASSING = {
    "its program cannot be executed": command("/nowhere"),
    "it ends at once": command("/bin/false"),
    "it takes too long": command("/bin/sh", "-c", "exec sleep 600", "sh"),
}


@pytest.mark.parametrize("failure", PASSING)
def test_an_expired_template_is_replaced_though_a_start_failed(
    failure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pool, "FIRST_PAUSE_SECONDS", 0.01)
    with changing_second(PASSING[failure]) as sandbox:
        steps = Steps(sandbox, tmp_path)
        first = serving(sandbox)
        process = process_of(first)
        monkeypatch.setattr(template, "START_SECONDS", 5.0)
        monkeypatch.setattr(template, "MOST_STEPS", 1)
        assert eventually(lambda: steps.run(IDENTITY) and serving(sandbox) is not first)
        assert eventually(lambda: steps.run(IDENTITY) and not Path(f"/proc/{process}").exists())
    assert "is tried again" in caplog.text


def test_an_expired_template_retires_where_none_can_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its steps then start interpreters of their own."""

    def may_make_no_namespace(launch: TemplateLaunch) -> TemplateLaunch:
        return replace(launch, options={**launch.options, "template_filter": launch.options["filter"]})

    with changing_second(may_make_no_namespace) as sandbox:
        steps = Steps(sandbox, tmp_path)
        process = process_of(serving(sandbox))
        monkeypatch.setattr(template, "MOST_STEPS", 1)
        assert eventually(lambda: steps.run(IDENTITY, awaits_template=False) is False)
        assert eventually(lambda: not Path(f"/proc/{process}").exists())
    assert "Steps start interpreters of their own" in caplog.text


def retire(first: Template, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets another template take the place of the one that serves."""
    with monkeypatch.context() as expired:
        expired.setattr(template, "MOST_STEPS", 0)
        sandbox.templates.await_first(LIMITS, lambda: None)
        assert eventually(lambda: sandbox.templates.serving(LIMITS) is not first)


def test_a_retired_template_ends_after_the_fork_that_is_under_way(
    forking: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = forking.sandbox
    first = serving(sandbox)
    stopped = process_of(first)
    os.kill(stopped, signal.SIGSTOP)
    try:
        forked = sandbox.templates.forked(LIMITS)
        assert forked is not None
        retire(first, sandbox, monkeypatch)
        # Each looks for retired templates that can be ended.
        assert [forking.run(IDENTITY) for _ in range(3)] == [True] * 3
    finally:
        os.kill(stopped, signal.SIGCONT)
    step = forked.result()
    assert step.alive
    step.end()
    step.close()
    # No step follows that would look for it.
    assert eventually(lambda: not Path(f"/proc/{stopped}").exists())


def test_a_retired_template_ends_after_a_fork_that_fails(forking: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = forking.sandbox
    first = serving(sandbox)
    process = process_of(first)
    os.kill(process, signal.SIGSTOP)
    forked = sandbox.templates.forked(LIMITS)
    assert forked is not None
    retire(first, sandbox, monkeypatch)
    os.kill(process, signal.SIGKILL)
    assert isinstance(forked.exception(LONGEST_WAIT_SECONDS), OSError)
    # Until it is ended, it has ended and is not reaped.
    assert eventually(lambda: not Path(f"/proc/{first.pid}").exists())


def test_only_the_templates_of_the_environments_used_last_are_kept(forking: Steps, tmp_path: Path) -> None:
    templates = forking.sandbox.templates
    folders = [tmp_path / f"packages-{number}" for number in range(MOST_ENVIRONMENTS + 1)]
    limits = [replace(LIMITS, packages=StepPackages(folder)) for folder in folders]
    found = []
    for folder, each in zip(folders, limits, strict=True):
        folder.mkdir()
        found.append(serving(forking.sandbox, each))
    assert [templates.serving(each) for each in limits] == [None, *found[1:]]
    assert eventually(lambda: not Path(f"/proc/{found[0].pid}").exists())


def test_templates_are_ended_off_the_event_loop(forking: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    ended_on: list[threading.Thread] = []
    close = Template.close

    def record(self: Template) -> None:
        ended_on.append(threading.current_thread())
        close(self)

    monkeypatch.setattr(Template, "close", record)
    monkeypatch.setattr(template, "MOST_STEPS", 1)
    # Each step has an event loop in this thread.
    assert eventually(lambda: forking.run(IDENTITY) and bool(ended_on))
    assert threading.current_thread() not in ended_on
