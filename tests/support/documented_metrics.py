"""The metrics that docs/metrics.md lists."""

import re
from pathlib import Path
from typing import NamedTuple

_PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
_BY_NAME = "\n## Keys and workflows\n"


class DocumentedMetric(NamedTuple):
    """A row of the page."""

    kind: str
    labels: frozenset[str]


def documented_metrics(*, by_name: bool) -> dict[str, DocumentedMetric]:
    """Returns the rows by metric; those that name keys and workflows only if asked for."""
    page = _PAGE.read_text(encoding="utf-8")
    before, rest = page.split(_BY_NAME)
    named, after = rest.split("\n## ", 1)
    text = page if by_name else f"{before}\n{after}"
    assert named
    rows = re.findall(r"^\| `([a-z_]+)` \| ([a-z]+) \|([^|]*)\| \S", text, re.MULTILINE)
    return {name: DocumentedMetric(kind, frozenset(re.findall(r"`([a-z_]+)`", labels))) for name, kind, labels in rows}
