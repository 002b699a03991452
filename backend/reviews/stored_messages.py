"""Messages that are made once and kept as objects of their run until its data is erased."""

from collections.abc import Callable
from contextlib import closing
from typing import Final, Generic, TypeVar

from google.protobuf.message import Message

from backend.runs import erase_sql
from backend.services import Services
from backend.storage.database import run_of
from backend.storage.object_keys import object_key
from backend.storage.objects import ObjectStore

M = TypeVar("M", bound=Message)

_SIZE_BYTES: Final = 8


class StoredMessages(Generic[M]):
    """Messages of one type by run and name; a name is a path that this service made."""

    def __init__(self, services: Services, objects: ObjectStore, parse: Callable[[bytes], M]) -> None:
        self._services = services
        self._objects = objects
        self._parse = parse

    def get(self, run_id: str, name: str) -> M | None:
        """Returns a message, or None where there is none."""
        key = object_key(run_id, name)
        try:
            size = int.from_bytes(self._read(key, 0, _SIZE_BYTES))
            return self._parse(self._read(key, _SIZE_BYTES, size))
        except KeyError:
            return None

    def put(self, run_id: str, name: str, message: M) -> None:
        """Keeps a message."""
        content = message.SerializeToString()
        self._objects.put_bytes(object_key(run_id, name), len(content).to_bytes(_SIZE_BYTES) + content)
        # The run may have been erased meanwhile, and its removal may have come before this object.
        at = self._services.clock()
        self._services.database.write(lambda tx: erase_sql.order_again(tx, run_id, at), lock_key=run_of(run_id))

    def _read(self, key: str, offset: int, length: int) -> bytes:
        with closing(self._objects.open_range(key, offset, length)) as parts:
            return b"".join(parts)
