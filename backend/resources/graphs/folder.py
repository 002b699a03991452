"""Knowledge graph in a folder that only this process opens; queries run in processes of their own."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from backend.common.ids import new_id
from backend.common.json_text import JsonObject
from backend.resources.graphs.graph import Bounds, GraphRefusedError, GraphUnavailableError, ResultPart, TripleStatement
from backend.storage.data_files import sync_folder

if TYPE_CHECKING:
    from pyoxigraph import Quad, Store, Triple

_CURRENT: Final = "current"


class FolderGraph:
    """Knowledge graph in a database below `folder`, opened at the first use.

    The file `current` names the folder of the database; other folders there were left by a crash.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._store: Store | None = None
        self._closed = False
        # Writers hold the first lock; the second is held only while the database is opened, copied or replaced.
        self._writing = threading.Lock()
        self._opening = threading.Lock()

    def replace(self, name: str, triples: "Iterable[Triple | TripleStatement]") -> int:
        """Replaces a named graph; see `Graph`."""
        from pyoxigraph import NamedNode, Quad

        graph = NamedNode(name)
        incoming = NamedNode(f"{name}/incoming")
        count = 0

        def quads(into: NamedNode) -> Iterator[Quad]:
            nonlocal count
            for triple in triples:
                self._check_open()
                count += 1
                yield Quad(triple.subject, triple.predicate, triple.object, into)

        with self._writing, _as_unavailable():
            store = self._open()
            if store.contains_named_graph(graph):
                store.remove_graph(incoming)
                store.extend(quads(incoming))
                store.update(f"MOVE SILENT {incoming} TO {graph}" if count else f"DROP SILENT GRAPH {graph}")
            else:
                store.extend(quads(graph))
            store.flush()
        return count

    def remove(self, name: str) -> None:
        """Removes a named graph; see `Graph`."""
        from pyoxigraph import NamedNode

        with self._writing, _as_unavailable():
            store = self._open()
            for graph in (name, f"{name}/incoming"):
                store.remove_graph(NamedNode(graph))
            store.flush()

    def forget_removed(self) -> None:
        """Rewrites the database, because it keeps every text ever stored; see `Graph`."""
        from pyoxigraph import Store

        with self._writing, _as_unavailable():
            store = self._open()
            name = new_id("db")
            fresh: Store | None = None
            try:
                fresh = Store(self._folder / name)
                fresh.bulk_extend(self._all_quads(store))
                fresh.flush()
                with self._opening:
                    self._make_current(name)
                    self._store = fresh
                sync_folder(self._folder)
            except BaseException:
                # Closes the new database, unless it is the current one already.
                fresh = None
                if self._current() != name:
                    shutil.rmtree(self._folder / name, ignore_errors=True)
                raise
            # Closes the old database, for this is its last reference.
            del store
            self._remove_leftovers(name)

    def query(self, text: str, bounds: Bounds) -> Iterator[ResultPart]:
        """Queries a copy of the current state, made of hard links; see `Graph`."""
        with _as_unavailable():
            self._open()
        copy = self._folder / new_id("copy")
        try:
            with _as_unavailable(), self._opening:
                assert self._store is not None, "it was opened"
                self._store.backup(copy)
            yield from run_query(copy, text, bounds)
        finally:
            shutil.rmtree(copy, ignore_errors=True)

    def close(self) -> None:
        """Closes the database; see `Graph`."""
        # Set before the locks are taken, so that a writer notices it and stops.
        self._closed = True
        with self._writing, self._opening:
            self._store = None

    def _all_quads(self, store: "Store") -> "Iterator[Quad]":
        for quad in store:
            self._check_open()
            yield quad

    def _check_open(self) -> None:
        if self._closed:
            raise GraphUnavailableError("the service is stopping")

    def _open(self) -> "Store":
        from pyoxigraph import Store

        with self._opening:
            self._check_open()
            if self._store is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                name = self._current()
                self._remove_leftovers(name)
                if name is None:
                    name = new_id("db")
                    store = Store(self._folder / name)
                    store.flush()
                    self._make_current(name)
                    sync_folder(self._folder)
                else:
                    store = Store(self._folder / name)
                self._store = store
            return self._store

    def _current(self) -> str | None:
        current = self._folder / _CURRENT
        return current.read_text() if current.exists() else None

    def _make_current(self, name: str) -> None:
        """Makes a database the current one; durable once the folder is synced."""
        new = self._folder / f"{_CURRENT}.new"
        with new.open("w") as file:
            file.write(name)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._folder / _CURRENT)

    def _remove_leftovers(self, name: str | None) -> None:
        for found in self._folder.iterdir():
            # Compared with None, because a store without triples is false.
            queried = self._store is not None and found.name.startswith("copy_")
            if found.is_dir() and found.name != name and not queried:
                shutil.rmtree(found, ignore_errors=True)


@contextlib.contextmanager
def _as_unavailable() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise GraphUnavailableError("the folder of the knowledge graph cannot be read or written") from error


def run_query(copy: Path, text: str, bounds: Bounds) -> Iterator[ResultPart]:
    """Evaluates a query on the database in `copy`; the process has ended when the iterator ends or is closed.

    Raises:
        GraphRefusedError: the query is not valid, takes too long or needs too much memory.
    """
    limits = (str(bounds.rows), str(bounds.seconds), str(bounds.size_bytes))
    process = subprocess.Popen(
        [sys.executable, "-I", "-m", "backend.resources.graphs.query_process", str(copy), *limits],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={},
    )
    late = threading.Event()

    def end() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(bounds.seconds, end)
    timer.start()
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        _send(process.stdin, text)
        for line in process.stdout:
            yield _part(json.loads(line))
        if process.wait() != 0:
            raise GraphRefusedError(
                f"it takes longer than {bounds.seconds:g} seconds" if late.is_set() else "it needs too much memory"
            )
    finally:
        timer.cancel()
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _send(stdin: IO[bytes], text: str) -> None:
    try:
        with stdin:
            stdin.write(text.encode())
    except BrokenPipeError:
        # The process has ended already; its exit code says why.
        pass


def _part(line: JsonObject) -> ResultPart:
    if "refused" in line:
        raise GraphRefusedError(line["refused"])
    return ResultPart(**line)
