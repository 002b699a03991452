"""The registry of a process's metrics, served if the settings say so."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial

from deploy.config.settings import Settings
from telemetry import MetricsRegistry


@contextmanager
def serving_metrics(settings: Settings, part: str | None) -> Iterator[MetricsRegistry]:
    """Serves a registry's metrics if `metrics.listen` is set; yields the registry, for parts to register with.

    `part` is the name of this process in its own metrics; None leaves its own metrics out.

    Raises:
        CommandError: the address cannot be bound.
    """
    registry = MetricsRegistry()
    if settings.metrics.listen is None:
        yield registry
        return
    from deploy.serve.metrics_server import MetricsServer, process_metrics

    own = registry.registered(partial(process_metrics, part)) if part else nullcontext()
    with own, MetricsServer(settings.metrics.listen, registry) as server:
        registry.url = server.url
        yield registry
