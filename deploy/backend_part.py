"""The backend as it is served, alone or with the edge in one process."""

import asyncio
import logging
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

_LOG = logging.getLogger(__name__)


@asynccontextmanager
async def served_backend(settings: Settings, data: Path) -> AsyncIterator[tuple[Backend, GrpcAddress]]:
    """Serve the services and the runtime; gives the backend and its gRPC address.

    Raises:
        CommandFailed: the data folder, the database, the objects' bucket, the sandbox, the certificate or the gRPC
            address cannot be used; the message says why.
    """
    address = settings.backend.grpc
    credentials = listening_credentials(settings.backend.tls)
    if settings.runtime.network == "full" and credentials is None and isinstance(address, Address):
        _LOG.warning("Steps with `network: full` can administer this deployment over %s: see docs/security.md", address)
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
