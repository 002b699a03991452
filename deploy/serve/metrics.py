"""The numbers of this process, as Prometheus takes them; docs/metrics.md says what each means."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

from contract.versions import API_VERSION, RELEASE
from deploy.config.settings import Settings
from telemetry import Family, Gauge, Sample

if TYPE_CHECKING:
    from prometheus_client import Metric

BUILD: Final = Gauge("build_info", "1; what runs here.", ("part", "version", "api_version"))

_TOTAL: Final = "_total"

_LOG = logging.getLogger(__name__)

Source = Callable[[], Iterable[Family]]


class Metrics:
    """What the parts in this process tell of themselves, those that are up; `url` says where, if anywhere."""

    def __init__(self) -> None:
        self.url: str | None = None
        self._sources: list[Source] = []

    @contextmanager
    def told_by(self, source: Source) -> Iterator[None]:
        """Ask `source` too; it is called in another thread."""
        self._sources.append(source)
        try:
            yield
        finally:
            self._sources.remove(source)

    def families(self) -> list[Family]:
        """Return all numbers; a source that breaks keeps nobody from the others."""
        told: list[Family] = []
        for source in tuple(self._sources):
            try:
                told += source()
            except Exception:  # noqa: BLE001 - as said
                _LOG.exception("some metrics could not be told")
        return told


@contextmanager
def served_metrics(settings: Settings, part: str | None) -> Iterator[Metrics]:
    """Serve what parts come to tell, where the settings say so; `part` names this process where it tells of itself.

    Raises:
        CommandFailed: the address cannot be bound.
    """
    metrics = Metrics()
    if settings.metrics.listen is None:
        yield metrics
        return
    from deploy.serve.metrics_server import MetricsServer

    told = metrics.told_by(lambda: of_process(part)) if part else nullcontext()
    with told, MetricsServer(settings.metrics.listen, metrics) as server:
        metrics.url = server.url
        yield metrics


def of_process(part: str) -> Iterator[Family]:
    """Tell what holds of any process: its release, its time, memory and files."""
    from prometheus_client import PROCESS_COLLECTOR

    yield BUILD.of({(part, RELEASE, API_VERSION): 1})
    yield from map(_family, PROCESS_COLLECTOR.collect())


def exposition(families: Iterable[Family]) -> bytes:
    """Return the numbers in Prometheus's text format."""
    from prometheus_client import generate_latest

    return generate_latest(_Told([_metric(family) for family in families]))


class _Told:
    """What prometheus_client takes for a registry."""

    def __init__(self, metrics: Sequence["Metric"]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable["Metric"]:
        """Give all of it."""
        return self._metrics


def _family(metric: "Metric") -> Family:
    name = metric.name + (_TOTAL if metric.type == "counter" else "")
    samples = [Sample(sample.name.removeprefix(name), sample.labels, sample.value) for sample in metric.samples]
    return Family(name, metric.type, metric.documentation, samples)


def _metric(family: Family) -> "Metric":
    from prometheus_client import Metric

    metric = Metric(family.name.removesuffix(_TOTAL), family.help, family.kind)
    for suffix, labels, value in family.samples:
        metric.add_sample(family.name + suffix, dict(labels), value)
    return metric
