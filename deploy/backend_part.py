"""The backend as it is served, alone or with the edge in one process."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from backend.bootstrap import Backend
from backend.runtime.sandbox import SandboxUnavailableError
from backend.secrets import SecretError
from backend.storage.database import DatabaseAwayError
from backend.storage.objects import ObjectStoreError
from backend.storage.opening import DataFolderError
from deploy.failures import CommandFailed
from deploy.settings import Address, Settings, backend_settings

_REASONS: Final = (
    *(DataFolderError, ObjectStoreError, SandboxUnavailableError, SecretError, DatabaseAwayError),
    ValueError,
)


@contextmanager
def cannot_start() -> Iterator[None]:
    """Tell what keeps a part from starting as a failure of the command."""
    try:
        yield
    except _REASONS as error:
        raise CommandFailed(str(error), code="cannot_start") from None


@asynccontextmanager
async def served_backend(settings: Settings, data: Path) -> AsyncIterator[tuple[Backend, Address]]:
    """Serve the services and the runtime; gives the backend and its gRPC address.

    Raises:
        CommandFailed: the data folder, the database, the objects' bucket, the sandbox or the gRPC address cannot be
            used; the message says why.
    """
    with cannot_start():
        backend = Backend(backend_settings(settings, data))
    try:
        with cannot_start():
            backend.start()
            port = backend.serve_grpc(str(settings.backend.grpc))
        yield backend, Address(settings.backend.grpc.host, port)
    finally:
        await asyncio.to_thread(backend.stop)
