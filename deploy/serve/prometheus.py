"""Metrics in the Prometheus text format; docs/metrics.md lists them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from contract.versions import API_VERSION, RELEASE
from telemetry import Family, Gauge, Sample
from telemetry.log_writer import DROPPED

if TYPE_CHECKING:
    from prometheus_client import Metric

BUILD: Final = Gauge("build_info", "Always 1; its labels name what runs here.", ("part", "version", "api_version"))

_TOTAL: Final = "_total"


def process_metrics(part: str) -> Iterator[Family]:
    """Yields what every process has: its release, dropped log lines, CPU time, memory and open files."""
    from prometheus_client import PROCESS_COLLECTOR

    yield BUILD.with_values({(part, RELEASE, API_VERSION): 1})
    yield DROPPED.collect()
    yield from map(_family, PROCESS_COLLECTOR.collect())


def exposition(families: Iterable[Family]) -> bytes:
    """Returns metrics in Prometheus's text format."""
    from prometheus_client import generate_latest

    return generate_latest(_Registry([_metric(family) for family in families]))


class _Registry:
    """The part of a prometheus_client registry that `generate_latest` uses."""

    def __init__(self, metrics: Sequence["Metric"]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable["Metric"]:
        """Returns all metrics."""
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
