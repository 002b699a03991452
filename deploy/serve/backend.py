"""Backend as a process: the gRPC services with the runtime, or a worker that executes segments without services."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Final

from backend.bootstrap import Backend, Worker
from backend.common.secrets import SecretError
from backend.isolation.sandbox import Sandbox, SandboxUnavailableError
from backend.storage.database import DatabaseUnavailableError
from backend.storage.factory import DataFolderError
from backend.storage.objects import ObjectStoreError
from deploy.config.addresses import Address, GrpcAddress
from deploy.config.settings import Settings, backend_settings
from deploy.failures import CommandError
from deploy.transport.certificate_watch import watched_certificate
from deploy.transport.grpc_channels import certificate_files, listening_credentials
from telemetry import MetricsRegistry

_LOG = logging.getLogger(__name__)

_STARTUP_ERRORS: Final = (
    *(DataFolderError, ObjectStoreError, SandboxUnavailableError, SecretError, DatabaseUnavailableError),
    ValueError,
)


@contextmanager
def startup_failures() -> Iterator[None]:
    """Turns the errors that keep a part from starting into CommandError."""
    try:
        yield
    except _STARTUP_ERRORS as error:
        raise CommandError(str(error), code="cannot_start") from None


@asynccontextmanager
async def running_backend(
    settings: Settings,
    data: Path,
    metrics: MetricsRegistry,
    open_sandbox: Callable[[], Sandbox] | None = None,
) -> AsyncIterator[tuple[Backend, GrpcAddress]]:
    """Runs the services and the runtime; yields the backend and its gRPC address.

    `open_sandbox` returns a sandbox that was chosen earlier.

    Raises:
        CommandError: the data folder, the database, the bucket for objects, the sandbox, the certificate or the gRPC
            address cannot be used; the message says why.
    """
    address = settings.backend.grpc
    certificate = certificate_files(settings.backend.tls)
    credentials = None if certificate is None else listening_credentials(certificate)
    if settings.runtime.network == "full" and credentials is None and isinstance(address, Address):
        _LOG.warning("Steps with `network: full` can administer this deployment over %s: see docs/security.md", address)
    with startup_failures():
        backend = Backend(backend_settings(settings, data), open_sandbox=open_sandbox)
    with metrics.registered(backend.measured), watched_certificate("backend", certificate, metrics):
        try:
            with startup_failures():
                backend.start()
                port = backend.serve_grpc(
                    str(address), credentials, lambda: None if certificate is None else certificate.expires_at_ms
                )
            metrics.ready = backend.ready
            yield backend, Address(address.host, port) if isinstance(address, Address) else address
        finally:
            await asyncio.to_thread(backend.stop)


@asynccontextmanager
async def running_worker(settings: Settings, data: Path, metrics: MetricsRegistry) -> AsyncIterator[None]:
    """Executes runs until the context ends.

    Raises:
        CommandError: the data folder, the database, the objects or the sandbox cannot be used; the message says why.
    """
    with startup_failures():
        worker = Worker(backend_settings(settings, data))
    with metrics.registered(worker.measured):
        try:
            with startup_failures():
                # Imports the code that executes runs now, before several threads would import it for their first ones.
                import_module("backend.runtime.execution.segment")
                # In another thread, because DBOS would use the event loop of this one.
                await asyncio.to_thread(worker.start)
            metrics.ready = lambda: True
            yield
        finally:
            await asyncio.to_thread(worker.stop)
