"""Cache of the code folders of agents, read from the database by digest."""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from backend.services.workflows import definitions_sql
from backend.services.workflows.definitions import files_of
from backend.storage.database import Database

_MOST_BYTES: Final = 64 * 2**20


class AgentSources:
    """Files of agents' code by the digest of their folder; keeps the ones that were used last. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._cache: OrderedDict[str, Mapping[str, bytes]] = OrderedDict()
        self._bytes = 0

    def get(self, digest: str) -> Mapping[str, bytes] | None:
        """Returns the files by path, or None if they are not stored.

        Raises:
            DatabaseAwayError: the database cannot be reached.
        """
        with self._lock:
            if digest in self._cache:
                self._cache.move_to_end(digest)
                return self._cache[digest]
        archive = self._database.read(lambda tx: definitions_sql.archive(tx, digest))
        if archive is None:
            return None
        files = files_of(archive)
        self._cache_files(digest, files)
        return files

    def _cache_files(self, digest: str, files: Mapping[str, bytes]) -> None:
        with self._lock:
            if digest not in self._cache:
                self._cache[digest] = files
                self._bytes += _size(files)
            while self._bytes > _MOST_BYTES and len(self._cache) > 1:
                self._bytes -= _size(self._cache.popitem(last=False)[1])


def _size(files: Mapping[str, bytes]) -> int:
    return sum(map(len, files.values()))
