"""The engine that executes runs."""

from collections.abc import Iterator

from deploy.doctor.check import Check, Examined, Part, failed


def check_engine(examined: Examined) -> Iterator[Check]:
    """Checks whether a worker would start with this engine."""
    if examined.part is Part.WORKER and examined.settings.runtime.engine != "dbos":
        yield failed(
            "engine",
            "runtime.engine is local, with which backends execute runs themselves, and no worker starts.",
            "Set runtime.engine to dbos, here and for the backends.",
        )
