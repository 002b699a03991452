"""The layer that isolates steps, tried as a start tries it."""

from collections.abc import Iterator
from typing import Final

from backend.sandbox.choose import AUTOMATIC, LAYERS
from backend.sandbox.layer import SandboxUnavailableError
from deploy.doctor.check import Check, Examined, Part, failed, not_applicable, ok, warning

_NAME: Final = "sandbox"


def check_sandbox(examined: Examined) -> Iterator[Check]:
    """Runs the interpreter in the layer that the settings choose, with its namespaces and filters."""
    runtime = examined.settings.runtime
    if examined.part is not Part.WORKER and runtime.engine != "local":
        yield not_applicable(_NAME, "Workers execute the steps.")
        return
    if runtime.sandbox == "none":
        yield warning(_NAME, "runtime.sandbox is none: no step is isolated.", "Set it to auto.")
        return
    reasons = []
    for name in AUTOMATIC if runtime.sandbox == "auto" else (runtime.sandbox,):
        try:
            LAYERS[name]().check()
        except SandboxUnavailableError as error:
            reasons.append(str(error).rstrip("."))
            continue
        if reasons:
            yield warning(
                _NAME,
                f"Steps run in the layer {name}, because {'; '.join(reasons)}.",
                "Install bubblewrap and allow user namespaces for the stronger layer (docs/sandbox.md).",
            )
        else:
            yield ok(_NAME, f"A program was started in the layer {name}.")
        return
    chosen = "" if runtime.sandbox == "auto" else f", or set runtime.sandbox, which is {runtime.sandbox}, to auto"
    yield failed(
        _NAME,
        f"Steps cannot be isolated: {'; '.join(reasons)}.",
        f"Install bubblewrap and allow user namespaces, or switch on Landlock in the kernel (docs/sandbox.md){chosen}.",
    )
