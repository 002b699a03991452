from collections.abc import Callable, Mapping

from backend.runtime.sandbox.bubblewrap import Bubblewrap
from backend.runtime.sandbox.layer import Layer, SandboxUnavailableError
from backend.runtime.sandbox.sandbox import Sandbox
from backend.runtime.sandbox.unconfined import Unconfined

LAYERS: Mapping[str, Callable[[], Layer]] = {"bwrap": Bubblewrap, "none": Unconfined}
AUTOMATIC = ("bwrap",)
"""What `auto` tries, in this order; never `none`, which only an operator can choose."""
WARM = 2


def choose_sandbox(setting: str, *, warm: int = WARM) -> Sandbox:
    """The sandbox for the setting `auto`, `bwrap` or `none`, after it was seen to work here.

    `warm` sandboxes are kept started for each of the environments used last. Raises SandboxUnavailableError where the
    asked layer, or for `auto` every isolating one, does not work: then no step may run.
    """
    if setting != "auto" and setting not in LAYERS:
        raise SandboxUnavailableError(f"sandbox must be one of auto, {', '.join(LAYERS)}, not {setting!r}")
    reasons = []
    for name in AUTOMATIC if setting == "auto" else (setting,):
        try:
            layer = LAYERS[name]()
            layer.check()
        except SandboxUnavailableError as error:
            reasons.append(str(error))
        else:
            return Sandbox(layer, warm=warm)
    raise SandboxUnavailableError(
        f"steps cannot be isolated on this machine: {'; '.join(reasons)}. "
        'Install bubblewrap and allow user namespaces, or say sandbox = "none" to run every step without isolation'
    )
