"""Registry of the metric sources of one process."""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from telemetry.metrics import Family

MetricSource = Callable[[], Iterable[Family]]
"""Returns the current numbers of one part; called from any thread."""

_LOG = logging.getLogger(__name__)


class MetricsRegistry:
    """The metric sources of the parts that run in this process.

    `url` is the address at which the numbers are served, None where they are not.
    """

    def __init__(self) -> None:
        self.url: str | None = None
        self._sources: list[MetricSource] = []

    @contextmanager
    def registered(self, source: MetricSource) -> Iterator[None]:
        """Includes the numbers of `source` while the context lasts."""
        self._sources.append(source)
        try:
            yield
        finally:
            self._sources.remove(source)

    def collect(self) -> list[Family]:
        """Returns the numbers of all sources, each family once; a source that raises is logged and skipped."""
        families: dict[str, Family] = {}
        for source in tuple(self._sources):
            try:
                for family in list(source()):
                    earlier = families.get(family.name)
                    samples = family.samples if earlier is None else (*earlier.samples, *family.samples)
                    families[family.name] = family._replace(samples=samples)
            except Exception:  # noqa: BLE001 - one broken source must not hide the others
                _LOG.exception("A metric source failed")
        return list(families.values())
