"""Carries out what is ordered in `publications`: in threads, in the order of each graph, until it has landed."""

import logging
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from backend.clock import DAY_MS, Clock
from backend.graphs.graph import GraphRefusedError, GraphUnavailableError
from backend.graphs.graphs import Graphs, graph_name
from backend.runtime.publishing import store
from backend.runtime.publishing.files import Source, triples_of
from backend.runtime.publishing.sweeping import Sweep
from backend.runtime.ticker import Ticker
from backend.storage.database import Database

_LOG = logging.getLogger(__name__)

# What changes here are publications, beside everything else.
_OF: Final = "publications"
_TICK_SECONDS: Final = 2.0
_THREADS: Final = 4
_MOST_AT_ONCE: Final = 50
_FIRST_PAUSE_MS: Final = 1_000
_MOST_DOUBLINGS: Final = 8
# A run's publication that no store took for so long is given up.
_TRIED_FOR_MS: Final = DAY_MS


@dataclass(frozen=True, slots=True)
class Landed:
    """A publication that its graph holds: under which name, and how many triples."""

    name: str
    triples: int


@dataclass(frozen=True, slots=True)
class NotLanded:
    """A publication that came to nothing, worded for a person."""

    reason: str


@dataclass(slots=True)
class Watch:
    """How a publication stands; `problem` is why the last attempt did not land."""

    outcome: "Future[Landed | NotLanded]" = field(default_factory=Future)
    problem: str | None = None


class Publisher:
    """Publishes and removes. The table says all of it, so a crash loses nothing; what is done twice is done once.

    Only what completed runs published stays: of runs that fail or are cancelled meanwhile it is taken away again.
    """

    def __init__(self, database: Database, clock: Clock, graphs: Graphs, source: Source, sweep: Sweep) -> None:
        self._database = database
        self._clock = clock
        self._graphs = graphs
        self._source = source
        self._sweep = sweep
        self._ticker = Ticker("publisher", self._dispatch, _TICK_SECONDS)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="publisher")
        self._lock = threading.Lock()
        self._busy: set[str] = set()
        self._watches: dict[tuple[str, str], Watch] = {}
        self._halts: dict[tuple[str, str], threading.Event] = {}

    def start(self) -> None:
        """Begins with what an earlier process left undone."""
        self._database.write(lambda tx: store.resume(tx, self._clock()), of=_OF)
        self._ticker.start()

    def stop(self) -> None:
        """Ends after the graphs were closed, which has work under way fail and stay ordered."""
        self._ticker.stop()
        self._graphs.close()
        self._threads.shutdown()

    def wake(self) -> None:
        """Tells that something was ordered; called after the commit, from any thread."""
        self._ticker.wake()

    def watch(self, run_id: str, graph_id: str) -> Watch:
        """Follows a publication that is about to be ordered, until `unwatch`."""
        return self._watches.setdefault((run_id, graph_id), Watch())

    def unwatch(self, run_id: str, graph_id: str) -> None:
        """Follows it no longer."""
        self._watches.pop((run_id, graph_id), None)

    def remove(self, run_id: str) -> None:
        """Orders the removal of all that a run published, durable on return; it is carried out soon after.

        What is being swept of it for a publication ends.
        """
        if self._database.write(lambda tx: store.remove(tx, run_id, self._clock()), of=_OF):
            self.wake()
        # After the order, which a publication that begins now reads.
        for (publishing, _), halt in list(self._halts.items()):
            if publishing == run_id:
                halt.set()

    def _dispatch(self) -> None:
        if not self._database.read(store.any_open):
            return
        now = self._clock()
        self._database.write(lambda tx: store.settle_ended(tx, now), of=_OF)
        for graph_id in self._database.read(lambda tx: store.due_graphs(tx, now)):
            with self._lock:
                if graph_id in self._busy:
                    continue
                self._busy.add(graph_id)
            self._threads.submit(self._work, graph_id)

    def _work(self, graph_id: str) -> None:
        try:
            now = self._clock()
            due = self._database.read(lambda tx: store.due(tx, graph_id, now, _MOST_AT_ONCE))
            # A run that goes on waits in its own process, which alone can tell it why nothing landed.
            rows = [row for row in due if row.ended or (row.run_id, row.graph_id) in self._watches]
            self._remove([row for row in rows if row.state == store.REMOVING])
            for row in rows:
                if row.state == store.PENDING:
                    self._publish(row)
        except Exception:  # noqa: BLE001 - the thread serves other graphs too
            _LOG.exception("Knowledge graph %s could not be worked on and is tried again", graph_id)
        else:
            if rows:
                # There may be more than fits into one round, or an order that came during it.
                self.wake()
        finally:
            with self._lock:
                self._busy.discard(graph_id)

    def _remove(self, rows: list[Any]) -> None:
        """Removes what was ordered; it counts as removed only when nothing of it stays readable."""
        if not rows:
            return
        removed = []
        try:
            for row in rows:
                graph, name = self._graph_of(row)
                graph.remove(name)
                removed.append(row)
            for graph in {id(graph): graph for graph, _ in map(self._graph_of, removed)}.values():
                graph.forget_removed()
        except BaseException as error:  # noqa: BLE001 - a panic of the library is no Exception
            for row in rows:
                self._postpone(row)
            _LOG.warning("What run %s published is still to be removed", rows[0].run_id, exc_info=error)
            return
        self._database.write(lambda tx: store.removed(tx, [(row.run_id, row.graph_id) for row in removed]), of=_OF)

    def _publish(self, row: Any) -> None:
        graph, name = self._graph_of(row)
        base_iri = orjson.loads(row.definition).get("base_iri")
        halt = self._halts[row.run_id, row.graph_id] = threading.Event()
        try:
            if not self._database.read(lambda tx: store.is_pending(tx, row.run_id, row.graph_id)):
                # Its removal was ordered since the row was read.
                return
            triples = triples_of(self._source(row.run_id), orjson.loads(row.entry), base_iri)
            count = graph.replace(name, self._sweep(row.run_id, triples, halt))
        except GraphRefusedError as error:
            self._settle(row, NotLanded(str(error)))
        except BaseException as error:  # noqa: BLE001 - a panic of the library is no Exception
            if self._clock() - row.requested_at >= _TRIED_FOR_MS:
                self._settle(row, NotLanded(_reason(error)))
            else:
                self._postpone(row)
                watch = self._watches.get((row.run_id, row.graph_id))
                if watch is not None:
                    watch.problem = _reason(error)
        else:
            self._settle(row, Landed(name, count))
        finally:
            del self._halts[row.run_id, row.graph_id]

    def _settle(self, row: Any, outcome: Landed | NotLanded) -> None:
        state = store.LANDED if isinstance(outcome, Landed) else store.FAILED
        self._database.write(lambda tx: store.settle(tx, row.run_id, row.graph_id, state), of=_OF)
        if isinstance(outcome, NotLanded):
            _LOG.warning("Run %s was not published to knowledge graph %s", row.run_id, row.graph_id)
        watch = self._watches.get((row.run_id, row.graph_id))
        if watch is not None and not watch.outcome.done():
            watch.outcome.set_result(outcome)

    def _postpone(self, row: Any) -> None:
        pause = _FIRST_PAUSE_MS << min(row.attempts, _MOST_DOUBLINGS)
        self._database.write(lambda tx: store.postpone(tx, row.run_id, row.graph_id, self._clock() + pause), of=_OF)

    def _graph_of(self, row: Any) -> tuple[Any, str]:
        definition = orjson.loads(row.definition)
        return self._graphs.get(row.graph_id, row.graph_version, definition), graph_name(definition, row.run_id)


def _reason(error: BaseException) -> str:
    if isinstance(error, GraphRefusedError | GraphUnavailableError):
        return str(error)
    _LOG.error("A knowledge graph failed", exc_info=error)
    return "an unexpected failure"
