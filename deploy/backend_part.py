"""The backend as it is served, alone or with the edge in one process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from backend.bootstrap import Backend
from backend.runtime.sandbox import SandboxUnavailableError
from backend.secrets import SecretError
from backend.storage.objects import ObjectStoreError
from backend.storage.opening import DataFolderError
from deploy.addresses import Address, GrpcAddress
from deploy.failures import CommandFailed
from deploy.settings import Settings, backend_settings
from deploy.wires import listening_credentials


@asynccontextmanager
async def served_backend(settings: Settings, data: Path) -> AsyncIterator[tuple[Backend, GrpcAddress]]:
    """Serve the services and the runtime; gives the backend and its gRPC address.

    Raises:
        CommandFailed: the data folder, the database, the objects' bucket, the sandbox, the certificate or the gRPC
            address cannot be used; the message says why.
    """
    address = settings.backend.grpc
    credentials = listening_credentials(settings.backend.tls)
    try:
        backend = Backend(backend_settings(settings, data))
    except (DataFolderError, ObjectStoreError, SandboxUnavailableError, SecretError) as error:
        raise CommandFailed(str(error), code="cannot_start") from None
    try:
        try:
            backend.start()
            port = backend.serve_grpc(str(address), credentials)
        except (ValueError, SandboxUnavailableError) as error:
            raise CommandFailed(str(error), code="cannot_start") from None
        yield backend, Address(address.host, port) if isinstance(address, Address) else address
    finally:
        await asyncio.to_thread(backend.stop)
