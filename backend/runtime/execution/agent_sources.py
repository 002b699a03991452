"""The folders with the code of agents, as steps get them."""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from backend.services.workflows import definitions_sql
from backend.services.workflows.definitions import files_of
from backend.storage.database import Database

_MOST_BYTES: Final = 64 * 2**20


class AgentSources:
    """Reads the code of agents by its digest, and keeps what was used last. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Mapping[str, bytes]] = OrderedDict()
        self._bytes = 0

    def get(self, digest: str) -> Mapping[str, bytes] | None:
        """Returns the files by path, or None if they are not stored.

        Raises:
            DatabaseAwayError: the database cannot be reached.
        """
        with self._lock:
            if digest in self._kept:
                self._kept.move_to_end(digest)
                return self._kept[digest]
        archive = self._database.read(lambda tx: definitions_sql.archive(tx, digest))
        if archive is None:
            return None
        files = files_of(archive)
        self._keep(digest, files)
        return files

    def _keep(self, digest: str, files: Mapping[str, bytes]) -> None:
        with self._lock:
            if digest not in self._kept:
                self._kept[digest] = files
                self._bytes += _size(files)
            while self._bytes > _MOST_BYTES and len(self._kept) > 1:
                self._bytes -= _size(self._kept.popitem(last=False)[1])


def _size(files: Mapping[str, bytes]) -> int:
    return sum(map(len, files.values()))
