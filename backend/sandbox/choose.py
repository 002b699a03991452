"""Chooses the layer that keeps steps apart on this machine."""

from collections.abc import Callable, Mapping

from backend.sandbox.bubblewrap import Bubblewrap
from backend.sandbox.landlock import Landlock
from backend.sandbox.layer import Layer, SandboxUnavailableError, remove_leftovers
from backend.sandbox.sandbox import Sandbox
from backend.sandbox.unconfined import Unconfined

LAYERS: Mapping[str, Callable[[], Layer]] = {"bwrap": Bubblewrap, "landlock": Landlock, "none": Unconfined}
AUTOMATIC = ("bwrap", "landlock")
"""What `auto` tries, in this order; never `none`, which only an operator can choose."""
WARM = 2


def choose_sandbox(setting: str, *, warm: int = WARM) -> Sandbox:
    """The sandbox for the setting `auto`, `bwrap`, `landlock` or `none`, after it was seen to work here.

    `warm` sandboxes are kept started for each of the environments used last. Raises SandboxUnavailableError where the
    asked layer, or for `auto` every isolating one, does not work: then no step may run.
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
