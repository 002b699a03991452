"""The layers that isolate steps, for tests that run in each of them."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

import pytest
from _pytest.mark import ParameterSet

from backend.sandbox import Sandbox, SandboxUnavailableError
from backend.sandbox.bubblewrap import OWN_USER, Bubblewrap
from backend.sandbox.landlock import Landlock
from backend.sandbox.layer import Layer
from backend.sandbox.limits import Limits
from backend.sandbox.unconfined import Unconfined
from tests.support.poll import LONGEST_WAIT_SECONDS


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


def await_template(sandbox: Sandbox, limits: Limits) -> None:
    """Waits until steps of these limits are forked, if they can be in this layer."""
    templates, served = sandbox._templates, threading.Event()
    if templates.await_first(limits, served.set):
        assert served.wait(LONGEST_WAIT_SECONDS)
    layer = sandbox.layer
    can_be = isinstance(layer, Bubblewrap) and not isinstance(layer, WithoutTemplates)
    if can_be and limits.preloads and os.geteuid() == 0:
        can_be = layer._user is OWN_USER  # type: ignore[attr-defined]
    assert can_be is (limits.of_template in templates._serving)


def counts_processes(layer: Layer) -> bool:
    """Returns whether the kernel limits the number of a step's processes in this layer."""
    if isinstance(layer, Bubblewrap):
        return layer._user is OWN_USER or os.geteuid() != 0
    return isinstance(layer, Landlock) and layer._users is not None
