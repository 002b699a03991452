"""Scrapes the metrics of a part."""

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from tests.support.client import call
from tests.support.wire import Answer

LISTEN = {"WORKFLOW_API_METRICS_LISTEN": "127.0.0.1:0"}


class Scrape(NamedTuple):
    """One answer: the types by name, and the values by name and labels."""

    kinds: Mapping[str, str]
    labels: Mapping[str, frozenset[str]]
    values: Mapping[tuple[str, frozenset[tuple[str, str]]], float]

    def value(self, name: str, **labels: str) -> float:
        """The sum over all series of the name that have these labels."""
        wanted = set(labels.items())
        return sum(value for (found, given), value in self.values.items() if found == _full(name) and wanted <= given)


def scrape(url: str) -> Scrape:
    """Returns the metrics at `url`."""
    answer = fetch(url)
    assert answer.status == 200, answer
    families = list(text_string_to_metric_families(answer.body.decode()))
    named = {family.name + ("_total" if family.type == "counter" else ""): family for family in families}
    return Scrape(
        {name: family.type for name, family in named.items()},
        {
            name: frozenset(label for sample in family.samples for label in sample.labels) - {"le"}
            for name, family in named.items()
        },
        {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in families
            for sample in family.samples
        },
    )


def fetch(url: str, path: str | None = None, method: str = "GET") -> Answer:
    """What is answered at `url`, or at another path there."""
    place = urlsplit(url)
    assert place.hostname is not None
    assert place.port is not None
    return call((place.hostname, place.port), method, path or place.path)


def _full(name: str) -> str:
    return name if name.startswith("process_") else f"workflow_api_{name}"
