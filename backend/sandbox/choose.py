"""Selects the layer that isolates steps on this machine."""

from collections.abc import Callable, Mapping

from backend.sandbox.bubblewrap import Bubblewrap
from backend.sandbox.landlock import Landlock
from backend.sandbox.layer import Layer, SandboxUnavailableError, remove_leftovers
from backend.sandbox.sandbox import Sandbox
from backend.sandbox.unconfined import Unconfined

LAYERS: Mapping[str, Callable[[], Layer]] = {"bwrap": Bubblewrap, "landlock": Landlock, "none": Unconfined}
AUTOMATIC = ("bwrap", "landlock")
"""Layers that `auto` tries, in this order; `none` must be chosen by an operator."""
WARM = 2


def choose_sandbox(setting: str, *, warm: int = WARM) -> Sandbox:
    """Returns the sandbox for the setting `auto`, `bwrap`, `landlock` or `none`, after a check that it works.

    `warm` sandboxes are kept started for each of the environments used last.

    Raises:
        SandboxUnavailableError: the layer, or for `auto` every isolating one, does not work; then no step may run.
    """
    if setting != "auto" and setting not in LAYERS:
        raise SandboxUnavailableError(f"runtime.sandbox must be one of auto, {', '.join(LAYERS)}, not {setting!r}")
    reasons = []
    for name in AUTOMATIC if setting == "auto" else (setting,):
        try:
            layer = LAYERS[name]()
            layer.check()
        except SandboxUnavailableError as error:
            reasons.append(str(error))
        else:
            remove_leftovers()
            return Sandbox(layer, warm=warm)
    raise SandboxUnavailableError(
        f"steps cannot be isolated on this machine: {'; '.join(reasons)}. "
        "Install bubblewrap and allow user namespaces, switch on Landlock in the kernel, or set "
        'runtime.sandbox to "none" and isolate no step at all'
    )
