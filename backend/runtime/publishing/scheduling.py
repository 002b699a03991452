"""Chooses the publications that are carried out next, fairly between keys and graphs."""

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from backend.runtime.publishing.sql import WaitingPublicationRow

CONCURRENT_PUBLICATIONS: Final = 8
"""The concurrent publications of one process; keys without one share as many more."""

_CONCURRENT_PER_GRAPH: Final = 4


@dataclass(frozen=True, slots=True)
class Active:
    """A publication in progress, which ends soon after `halt` is set."""

    run_id: str
    graph_id: str
    key_id: str
    halt: threading.Event = field(default_factory=threading.Event)


def next_publications(waiting: Iterable[WaitingPublicationRow], active: Collection[Active]) -> Iterator[Active]:
    """Yields the waiting publications to start now, in order for each key, those of the keys with the fewest first.

    A key has one at a time for each graph, so that a store which does not answer holds up only a few.
    """
    known = {(one.run_id, one.graph_id) for one in active}
    keys = Counter(one.key_id for one in active)
    graphs = Counter(one.graph_id for one in active)
    pairs = {(one.key_id, one.graph_id) for one in active}
    left = [row for row in waiting if (row.run_id, row.graph_id) not in known]
    while True:
        left = [
            row
            for row in left
            if (row.key_id, row.graph_id) not in pairs and graphs[row.graph_id] < _CONCURRENT_PER_GRAPH
        ]
        if not left:
            return
        row = min(left, key=lambda one: keys[one.key_id])
        if keys.total() >= CONCURRENT_PUBLICATIONS * (1 if keys[row.key_id] else 2):
            return
        keys[row.key_id] += 1
        graphs[row.graph_id] += 1
        pairs.add((row.key_id, row.graph_id))
        yield Active(row.run_id, row.graph_id, row.key_id)
