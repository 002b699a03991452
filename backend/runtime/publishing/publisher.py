"""Executes the publications and removals requested in the table `publications`, in threads, with retries."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

import orjson

from backend.common.clock import DAY_MS, Clock
from backend.common.ids import new_id
from backend.common.retry import Backoff
from backend.resources.graphs.graph import (
    Graph,
    GraphOutcomeUnknownError,
    GraphRefusedError,
    GraphUnavailableError,
    TripleStatement,
)
from backend.resources.graphs.graphs import Graphs, graph_name
from backend.runtime.publishing import sql
from backend.runtime.publishing.files import FileParser, FileSource
from backend.runtime.publishing.sql import WaitingPublicationRow
from backend.runtime.publishing.sweeping import Sweep
from backend.storage.database import Database, Tx
from backend.storage.outage import Ticker

_LOG = logging.getLogger(__name__)

# Changes of publications need no order among other changes.
_LOCK_KEY: Final = "publications"
# Seconds between rounds, each of which ends publications that another process has withdrawn.
_TICK_SECONDS: Final = 1.0
# Age at which a claim is renewed.
_RENEWED_AFTER_MS: Final = 60_000
_REMOVING_THREADS: Final = 4
_MAX_REMOVALS: Final = 50
_MAX_WAITING: Final = 10_000
_BACKOFF: Final = Backoff(first_seconds=1.0, longest_seconds=sql.LONGEST_WAIT_MS / 1000)
# Time of failures after which a publication is given up.
_GIVEN_UP_AFTER_MS: Final = DAY_MS

CONCURRENT_PUBLICATIONS: Final = 8
"""Most concurrent publications of one process; keys without a running publication share as many more."""

_CONCURRENT_PER_GRAPH: Final = 4


@dataclass(frozen=True, slots=True)
class PublicationSuccess:
    """A publication that its graph holds: the name of its named graph, and its number of triples."""

    name: str
    triples: int


@dataclass(frozen=True, slots=True)
class PublicationFailure:
    """A publication that failed for good, with the reason for the caller."""

    reason: str


@dataclass(slots=True)
class PublicationWatch:
    """Future outcome of a publication; `problem` is the reason why the last attempt failed."""

    outcome: "Future[PublicationSuccess | PublicationFailure]" = field(default_factory=Future)
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ActivePublication:
    """A publication in progress, which ends soon after `halt` is set."""

    run_id: str
    graph_id: str
    key_id: str
    halt: threading.Event = field(default_factory=threading.Event)


class Publisher:
    """Publishes outputs to graphs, and removes them.

    The table holds all orders, so a crash loses none; an order may be carried out twice.

    Only completed runs stay published: publications of runs that fail or are cancelled meanwhile are removed again.

    Several processes share the table. Each claims a publication before it changes the named graph of the run, and keeps
    the claim while the store may still carry out an update, so that no update follows a removal. A suspended process
    may lose its claim in the middle: if its update lands after all, the row records it, or its removal is requested.
    """

    def __init__(
        self, database: Database, clock: Clock, graphs: Graphs, source: FileSource, parser: FileParser, sweep: Sweep
    ) -> None:
        self._database = database
        self._clock = clock
        self._graphs = graphs
        self._source = source
        self._parser = parser
        self._sweep = sweep
        self._owner = new_id("pub")
        self._removals_owner = new_id("pub")
        self._ticker = Ticker("publisher", self.round, _TICK_SECONDS)
        self._threads = ThreadPoolExecutor(2 * CONCURRENT_PUBLICATIONS, thread_name_prefix="publisher")
        self._removing_threads = ThreadPoolExecutor(_REMOVING_THREADS, thread_name_prefix="publisher-removing")
        self._lock = threading.Lock()
        self._active: dict[tuple[str, str], ActivePublication] = {}
        # The removals in progress, by graph.
        self._removing: dict[str, list[sql.OrderedPublicationRow]] = {}
        self._watches: dict[tuple[str, str], PublicationWatch] = {}

    @property
    def publishing(self) -> frozenset[tuple[str, str]]:
        """The publications under way in this process, by run and graph."""
        with self._lock:
            return frozenset(self._active)

    @property
    def removing(self) -> frozenset[str]:
        """The graphs with removals under way in this process."""
        with self._lock:
            return frozenset(self._removing)

    def start(self) -> None:
        """Starts the thread, which begins with the orders that an earlier process left."""
        alone = not self._database.remote
        self._database.write(lambda tx: sql.resume(tx, self._clock(), alone=alone), lock_key=_LOCK_KEY)
        self._ticker.start()

    def stop(self) -> None:
        """Ends the work in progress; its orders stay in the table."""
        self._ticker.stop()
        self._halt_chosen(lambda _: True)
        self._graphs.close()
        self._parser.close()
        self._threads.shutdown()
        self._removing_threads.shutdown()

    def wake(self) -> None:
        """Starts to carry out new orders; called after their commit. Thread-safe."""
        self._ticker.wake()

    def watch(self, run_id: str, graph_id: str) -> PublicationWatch:
        """Watches a publication that is about to be ordered, until `unwatch`."""
        return self._watches.setdefault((run_id, graph_id), PublicationWatch())

    def unwatch(self, run_id: str, graph_id: str) -> None:
        """Ends a watch."""
        self._watches.pop((run_id, graph_id), None)

    def remove(self, run_id: str) -> None:
        """Orders the removal of all publications of a run, durable on return and carried out soon after.

        Ends publications of the run that are in progress.
        """
        ordered = self._database.write(lambda tx: sql.remove(tx, run_id, self._clock()), lock_key=_LOCK_KEY)
        self._halt_chosen(lambda active: active.run_id == run_id)
        if ordered:
            self.wake()

    def round(self) -> None:
        """Claims and begins due publications and removals, and ends withdrawn ones."""
        if not self._database.read(sql.any_open):
            self._halt_chosen(lambda _: True)
            return
        now = self._clock()
        self._database.write(lambda tx: sql.settle_ended(tx, now), lock_key=_LOCK_KEY)
        self._review_claims(now)
        for graph_id in self._database.read(lambda tx: sql.graphs_to_clear(tx, self._removals_owner, now)):
            with self._lock:
                if graph_id in self._removing:
                    continue
                self._removing[graph_id] = []
            self._removing_threads.submit(self._remove_due, graph_id)
        self._begin(self._database.read(lambda tx: sql.waiting(tx, self._owner, now, _MAX_WAITING)), now)

    def _review_claims(self, now: int) -> None:
        """Renews the claims of work in progress, and ends publications that were withdrawn or lost their claim."""
        with self._lock:
            publishing = set(self._active)
            in_progress = publishing.union(*(map(_key, rows) for rows in self._removing.values()))
        if not in_progress:
            return
        owners = (self._owner, self._removals_owner)
        claims = {_key(claim): claim for claim in self._database.read(lambda tx: sql.claims(tx, owners))}
        withdrawn = publishing - {key for key, claim in claims.items() if claim.state == sql.PENDING}
        self._halt_chosen(lambda active: _key(active) in withdrawn)
        fresh = range(sql.CLAIM_MS - _RENEWED_AFTER_MS, sql.CLAIM_MS + 1)
        aging = [
            claim for key, claim in claims.items() if key in in_progress and claim.claimed_until - now not in fresh
        ]
        if aging:
            self._database.write(lambda tx: sql.renew(tx, aging, now), lock_key=_LOCK_KEY)

    def _halt_chosen(self, chosen: Callable[[ActivePublication], bool]) -> None:
        with self._lock:
            active = list(self._active.values())
        for one in active:
            if chosen(one):
                one.halt.set()

    def _begin(self, waiting: list[sql.WaitingPublicationRow], now: int) -> None:
        # Publications of unfinished runs are made by the run's own process, whose watch reports failed attempts.
        ours = [row for row in waiting if row.ended or (row.run_id, row.graph_id) in self._watches]
        with self._lock:
            chosen = list(next_publications(ours, self._active.values()))
        if not chosen:
            return

        def claim(tx: Tx) -> list[ActivePublication]:
            return [one for one in chosen if sql.claim(tx, *_key(one), sql.PENDING, self._owner, now)]

        claimed = self._database.write(claim, lock_key=_LOCK_KEY)
        with self._lock:
            self._active.update({_key(one): one for one in claimed})
        for one in claimed:
            self._threads.submit(self._run, one)

    def _run(self, active: ActivePublication) -> None:
        try:
            row = self._database.read(lambda tx: sql.pending(tx, active.run_id, active.graph_id))
            if row is None:
                self._release(active)
            else:
                self._publish(row, active)
        except Exception:  # noqa: BLE001 - the thread serves others too
            _LOG.exception("A publication of run %s failed unexpectedly; it stays pending", active.run_id)
        finally:
            with self._lock:
                del self._active[_key(active)]
        # Other publications may have waited for the end of this one.
        self.wake()

    def _remove_due(self, graph_id: str) -> None:
        rows: list[sql.OrderedPublicationRow] = []
        try:
            now = self._clock()
            rows = self._database.write(
                lambda tx: sql.claim_removals(tx, graph_id, self._removals_owner, now, _MAX_REMOVALS),
                lock_key=_LOCK_KEY,
            )
            with self._lock:
                self._removing[graph_id] = rows
            self._remove(rows)
        except Exception:  # noqa: BLE001 - the thread serves other graphs too
            _LOG.exception("Removals from knowledge graph %s failed unexpectedly; they stay pending", graph_id)
        finally:
            with self._lock:
                del self._removing[graph_id]
        if rows:
            # More removals may be due than one round takes.
            self.wake()

    def _remove(self, rows: list[sql.OrderedPublicationRow]) -> None:
        """Removes publications; records them as removed only when no content of theirs is readable any more."""
        if not rows:
            return
        try:
            graphs = [self._graph_of(row) for row in rows]
            for graph, name in graphs:
                graph.remove(name)
            for graph in {id(graph): graph for graph, _ in graphs}.values():
                graph.forget_removed()
        except BaseException as error:  # noqa: BLE001 - a panic of the library is no Exception
            for row in rows:
                self._postpone(row, self._removals_owner)
            _LOG.warning("A removal of publications of run %s failed; it stays pending", rows[0].run_id, exc_info=error)
            return
        self._database.write(
            lambda tx: sql.delete_removed(tx, map(_key, rows), self._removals_owner), lock_key=_LOCK_KEY
        )

    def _publish(self, row: sql.OrderedPublicationRow, active: ActivePublication) -> None:
        try:
            landed = self._replace_graph(row, active)
        except GraphRefusedError as error:
            self._settle(row, PublicationFailure(str(error)))
        except BaseException as error:  # noqa: BLE001 - a panic of the library is no Exception
            # The store may still carry out the update, so the claim is kept until that is impossible.
            may_land = isinstance(error, GraphOutcomeUnknownError)
            if active.halt.is_set():
                # The publication was withdrawn, or starts over in the next process.
                if not may_land:
                    self._release(row)
                return
            if self._clock() - row.requested_at >= _GIVEN_UP_AFTER_MS:
                self._settle(row, PublicationFailure(_reason(error)), may_land=may_land)
            else:
                self._postpone(row, self._owner, may_land=may_land)
                watch = self._watches.get((row.run_id, row.graph_id))
                if watch is not None:
                    watch.problem = _reason(error)
        else:
            self._settle(row, landed)

    def _replace_graph(self, row: sql.OrderedPublicationRow, active: ActivePublication) -> PublicationSuccess:
        graph, name = self._graph_of(row)
        files, entry = self._source(row.run_id), orjson.loads(row.entry)
        base_iri = orjson.loads(row.definition).get("base_iri")
        with (
            self._parser.parse(files, entry, base_iri, owner=active.key_id, halt=active.halt) as triples,
            self._sweep(row.run_id, triples, active.halt) as swept,
        ):
            now = self._clock()
            if not self._database.write(
                lambda tx: sql.claim(tx, *_key(row), sql.PENDING, self._owner, now), lock_key=_LOCK_KEY
            ):
                active.halt.set()
                raise GraphUnavailableError("the publication was ended")
            return PublicationSuccess(name, graph.replace(name, _until_halted(swept.read(), active.halt)))

    def _settle(
        self,
        row: sql.OrderedPublicationRow,
        outcome: PublicationSuccess | PublicationFailure,
        *,
        may_land: bool = False,
    ) -> None:
        now = self._clock()

        def settle(tx: Tx) -> None:
            if isinstance(outcome, PublicationSuccess):
                sql.land(tx, row, now)
            else:
                sql.fail(tx, *_key(row), self._owner)
            if not may_land:
                sql.release(tx, *_key(row), self._owner)

        self._database.write(settle, lock_key=_LOCK_KEY)
        if isinstance(outcome, PublicationFailure):
            _LOG.warning("Run %s was not published to knowledge graph %s", row.run_id, row.graph_id)
        watch = self._watches.get((row.run_id, row.graph_id))
        if watch is not None and not watch.outcome.done():
            watch.outcome.set_result(outcome)

    def _postpone(self, row: sql.OrderedPublicationRow, owner: str, *, may_land: bool = False) -> None:
        until = self._clock() + round(1000 * _BACKOFF.delay(row.attempts + 1))

        def postpone(tx: Tx) -> None:
            sql.postpone(tx, *_key(row), owner, until)
            if not may_land:
                sql.release(tx, *_key(row), owner)

        self._database.write(postpone, lock_key=_LOCK_KEY)

    def _release(self, one: ActivePublication | sql.OrderedPublicationRow) -> None:
        self._database.write(lambda tx: sql.release(tx, *_key(one), self._owner), lock_key=_LOCK_KEY)

    def _graph_of(self, row: sql.OrderedPublicationRow) -> tuple[Graph, str]:
        definition = orjson.loads(row.definition)
        return self._graphs.get(row.graph_id, row.graph_version, definition), graph_name(definition, row.run_id)


def _key(one: ActivePublication | sql.OrderedPublicationRow | sql.ClaimRow) -> tuple[str, str]:
    return one.run_id, one.graph_id


def _until_halted(triples: Iterator[TripleStatement], halt: threading.Event) -> Iterator[TripleStatement]:
    for triple in triples:
        if halt.is_set():
            raise GraphUnavailableError("the publication was ended")
        yield triple


def _reason(error: BaseException) -> str:
    if isinstance(error, GraphRefusedError | GraphUnavailableError):
        return str(error)
    _LOG.error("A knowledge graph failed", exc_info=error)
    return "an unexpected failure"


def next_publications(
    waiting: Iterable[WaitingPublicationRow], active: Collection[ActivePublication]
) -> Iterator[ActivePublication]:
    """Yields the waiting publications to start now, in order for each key, keys with the fewest running first.

    A key has one publication at a time for each graph, so that a store that does not answer holds up only a few.
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
        yield ActivePublication(row.run_id, row.graph_id, row.key_id)
