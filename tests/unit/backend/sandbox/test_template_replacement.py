"""Templates that have expired: what follows them, also where the next does not start, and how they end."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from backend.sandbox import Packages, Sandbox, SandboxUnavailableError, start_policy, template
from backend.sandbox.bubblewrap import Bubblewrap
from backend.sandbox.layer import TemplateLaunch
from backend.sandbox.limits import Limits
from backend.sandbox.pool import MOST_ENVIRONMENTS
from backend.sandbox.template import Template
from tests.support.poll import LONGEST_WAIT_SECONDS
from tests.unit.backend.sandbox.steps import LIMITS, Steps, eventually
from tests.unit.backend.sandbox.templates import IDENTITY, process_of, serving

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
    monkeypatch.setattr(start_policy, "FIRST_PAUSE_SECONDS", 0.01)
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


def test_a_retired_template_ends_after_the_fork_that_is_under_way(
    forking: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(template, "ANSWER_SECONDS", 100.0)
    sandbox = forking.sandbox
    first = serving(sandbox)
    stopped = process_of(first)
    os.kill(stopped, signal.SIGSTOP)
    try:
        forked = sandbox._templates.forked(LIMITS)
        assert forked is not None
        with monkeypatch.context() as expired:
            expired.setattr(template, "MOST_STEPS", 0)
            sandbox._templates.await_first(LIMITS, lambda: None)
            assert eventually(lambda: sandbox._templates._serving[LIMITS.of_template] is not first)
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
    monkeypatch.setattr(template, "ANSWER_SECONDS", 0.1)
    os.kill(process, signal.SIGSTOP)
    forked = sandbox._templates.forked(LIMITS)
    assert forked is not None
    sandbox._templates._retire(LIMITS.of_template)
    assert isinstance(forked.exception(LONGEST_WAIT_SECONDS), OSError)
    assert eventually(lambda: not Path(f"/proc/{process}").exists())


def test_nothing_is_kept_of_an_environment_whose_template_is_gone(forking: Steps, tmp_path: Path) -> None:
    templates = forking.sandbox._templates
    for number in range(MOST_ENVIRONMENTS + 1):
        (folder := tmp_path / f"packages-{number}").mkdir()
        serving(forking.sandbox, replace(LIMITS, packages=Packages(folder)))
    assert len(templates._serving) == MOST_ENVIRONMENTS
    assert not templates._policies
    assert eventually(lambda: not templates._retired)


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
