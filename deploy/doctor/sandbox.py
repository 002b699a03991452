"""Checks of the engine, and of the isolation layer, which is tried out as at a start."""

from collections.abc import Iterator
from typing import Final

from backend.isolation.sandbox.layer import SandboxUnavailableError
from backend.isolation.sandbox.sandbox import AUTOMATIC, LAYERS
from deploy.doctor.examination import ExaminedPart, Finding, ServingPart, failed, not_applicable, ok, warning

_NAME: Final = "sandbox"


def check_sandbox(examined: ExaminedPart) -> Iterator[Finding]:
    """Runs the interpreter in the layer that the settings choose, with its namespaces and filters."""
    runtime = examined.settings.runtime
    if examined.part is not ServingPart.WORKER and runtime.engine != "local":
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


def check_engine(examined: ExaminedPart) -> Iterator[Finding]:
    """Checks whether a worker would start with this engine."""
    if examined.part is ServingPart.WORKER and examined.settings.runtime.engine != "dbos":
        yield failed(
            "engine",
            "runtime.engine is local, with which backends execute runs themselves, and no worker starts.",
            "Set runtime.engine to dbos, here and for the backends.",
        )
