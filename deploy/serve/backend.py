"""The backend as it is served, alone or with the edge in one process."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from backend.bootstrap import Backend
from backend.sandbox import SandboxUnavailableError
from backend.secrets import SecretError
from backend.storage.database import DatabaseAwayError
from backend.storage.factory import DataFolderError
from backend.storage.objects import ObjectStoreError
from deploy.cli.failures import CommandFailed
from deploy.config.addresses import Address, GrpcAddress
from deploy.config.settings import Settings, backend_settings
from deploy.serve.grpc_channels import listening_credentials
from deploy.serve.metrics import Metrics

_LOG = logging.getLogger(__name__)

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
async def served_backend(
    settings: Settings, data: Path, metrics: Metrics
) -> AsyncIterator[tuple[Backend, GrpcAddress]]:
    """Serve the services and the runtime; gives the backend and its gRPC address.

    Raises:
        CommandFailed: the data folder, the database, the objects' bucket, the sandbox, the certificate or the gRPC
            address cannot be used; the message says why.
    """
    address = settings.backend.grpc
    credentials = listening_credentials(settings.backend.tls)
    if settings.runtime.network == "full" and credentials is None and isinstance(address, Address):
        _LOG.warning("Steps with `network: full` can administer this deployment over %s: see docs/security.md", address)
    with cannot_start():
        backend = Backend(backend_settings(settings, data))
    with metrics.told_by(backend.measured):
        try:
            with cannot_start():
                backend.start()
                port = backend.serve_grpc(str(address), credentials)
            yield backend, Address(address.host, port) if isinstance(address, Address) else address
        finally:
            await asyncio.to_thread(backend.stop)
