"""The layers that isolate steps, for tests that run in each of them."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

import pytest
from _pytest.mark import ParameterSet

from backend.isolation.sandbox import Sandbox, SandboxUnavailableError, forked, launched, template
from backend.isolation.sandbox.bubblewrap import Bubblewrap
from backend.isolation.sandbox.landlock import Landlock
from backend.isolation.sandbox.layer import Layer
from backend.isolation.sandbox.limits import Limits
from backend.isolation.sandbox.sandbox import Unconfined
from tests.support.poll import LONGEST_WAIT_SECONDS, until


class WithoutTemplates(Bubblewrap):
    """Bubblewrap as for steps with folders of the host, which start an interpreter of their own."""

    def launch_template(self, limits: Limits) -> None:
        """Returns None, for no limits."""


LAYERS: Mapping[str, Callable[[], Layer]] = {
    "bwrap": Bubblewrap,
    "bwrap, user namespace": lambda: Bubblewrap(own_user=False),
    "bwrap, not forked": WithoutTemplates,
    "bwrap, user namespace, not forked": lambda: WithoutTemplates(own_user=False),
    "landlock": Landlock,
    "landlock, service's user": lambda: Landlock(own_user=False),
    "landlock 3, service's user": lambda: Landlock(own_user=False, abi=3),
}
EVERY_LAYER: Mapping[str, Callable[[], Layer]] = {**LAYERS, "none": Unconfined}
NAMESPACED = tuple(name for name in LAYERS if name.startswith("bwrap"))
_IN_SHORT = ("bwrap", "landlock", "none")


def each(names: Iterable[str]) -> list[ParameterSet]:
    """Parameters of a fixture, a layer each; the variants of both layers are left to `make test-long`."""
    return [pytest.param(name, marks=() if name in _IN_SHORT else pytest.mark.long) for name in names]


in_every_layer = pytest.mark.parametrize(
    "sandbox",
    [
        "bwrap",
        *(pytest.param(name, marks=pytest.mark.long) for name in ("landlock", "landlock, service's user", "none")),
    ],
    indirect=True,
)
"""Marks a test of what the layer decides about a step: its files, its limits, and how it ends."""


@contextmanager
def opened(name: str) -> Iterator[Sandbox]:
    """Opens a sandbox of this layer; skips the test, with the reason, where the layer does not work."""
    try:
        layer = EVERY_LAYER[name]()
        layer.check()
    except SandboxUnavailableError as error:
        wanted = "the package `bubblewrap`" if name in NAMESPACED else "a kernel with Landlock switched on"
        pytest.skip(f"the sandbox layer `{name}` is needed ({error}): provide {wanted}")
    sandbox = Sandbox(layer, warm=0)
    yield sandbox
    sandbox.close()


def await_start(sandbox: Sandbox, limits: Limits) -> None:
    """Waits until the first template of these limits serves, or has failed to start."""
    known = threading.Event()
    if sandbox.templates.await_first(limits, known.set):
        assert known.wait(LONGEST_WAIT_SECONDS)


def await_template(sandbox: Sandbox, limits: Limits) -> None:
    """Waits until steps of these limits are forked, if they can be in this layer."""
    layer = sandbox.layer
    can_be = isinstance(layer, Bubblewrap) and not isinstance(layer, WithoutTemplates)
    if can_be and limits.preloads and os.geteuid() == 0:
        can_be = layer.own_user  # type: ignore[attr-defined]

    def serves() -> bool:
        await_start(sandbox, limits)
        return sandbox.templates.serving(limits) is not None

    if can_be:
        # A start that failed for a passing reason is followed by another after a pause.
        until(serves, "a template")
    else:
        assert not serves()


def allow_long_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets templates answer, and killed steps die, as late as they may on a busy machine."""
    monkeypatch.setattr(template, "ANSWER_SECONDS", LONGEST_WAIT_SECONDS)
    monkeypatch.setattr(forked, "REAP_SECONDS", LONGEST_WAIT_SECONDS)
    monkeypatch.setattr(launched, "REAP_SECONDS", LONGEST_WAIT_SECONDS)


def counts_processes(layer: Layer) -> bool:
    """Returns whether the kernel limits the number of a step's processes in this layer."""
    if isinstance(layer, Bubblewrap):
        return layer.own_user or os.geteuid() != 0
    return isinstance(layer, Landlock) and layer.users is not None
