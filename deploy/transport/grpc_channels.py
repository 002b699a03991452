"""gRPC channels and credentials: plain text on this machine only, mutual TLS anywhere."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import grpc
import grpc.aio

from deploy.config.addresses import Address, Addresses, BackendAddress, GrpcAddress
from deploy.config.settings import ClientTls, ServerTls
from deploy.config.source import NEEDS_TLS
from deploy.failures import CommandError
from telemetry import MetricsRegistry

if TYPE_CHECKING:
    from contract.channel.remote import RemoteChannel
    from deploy.transport.certificates import CertificateFiles, Pem

Options = Sequence[tuple[str, Any]]

_NAME_OPTION: Final = "grpc.ssl_target_name_override"


def certificate_files(tls: ServerTls) -> "CertificateFiles | None":
    """Returns the certificate files of a part, None if its connections are plain text.

    Raises:
        CommandError: the certificate cannot be used; the message says why.
    """
    if not tls.given:
        return None
    from deploy.transport.certificates import CertificateFiles

    return CertificateFiles(tls)


def listening_credentials(files: "CertificateFiles") -> grpc.ServerCredentials:
    """Returns a backend's credentials; new connections use the current certificate files."""
    used = files.current()

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        nonlocal used
        pem = files.current()
        if pem is used:
            return None
        used = pem
        return _configuration(pem)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(used),
        renewed,  # type: ignore[arg-type]  # grpc documents None for no change
        require_client_authentication=True,
    )


def calling_channel(address: GrpcAddress, tls: ClientTls, options: Options) -> grpc.Channel:
    """Opens a channel for a short-lived client.

    Raises:
        CommandError: the certificate cannot be used, or there is none and the address is not on this machine.
    """
    files = certificate_files(tls)
    if files is None:
        return grpc.insecure_channel(_plain_target(address), options=options)
    return grpc.secure_channel(str(address), _credentials(files.current()), options=[*options, *_name_override(tls)])


@asynccontextmanager
async def serving_channel(
    address: BackendAddress, tls: ClientTls, part: str, metrics: MetricsRegistry
) -> AsyncIterator["RemoteChannel"]:
    """Yields a channel for a serving process, which follows changes of the certificate files and watches each backend.

    Raises:
        CommandError: as `calling_channel`.
    """
    from contract.channel.backend_watch import BackendWatch
    from contract.channel.remote import CHANNEL_OPTIONS, PROBE_OPTIONS, RemoteChannel
    from deploy.transport.certificate_watch import watched_certificate

    files = certificate_files(tls)
    target = _plain_target(address) if files is None else _target(address)
    used = None if files is None else files.current()

    def open_channel(where: str, options: Options, pem: "Pem | None") -> grpc.aio.Channel:
        if pem is None:
            return grpc.aio.insecure_channel(where, options=options)
        return grpc.aio.secure_channel(where, _credentials(pem), options=[*options, *_name_override(tls)])

    def renewed() -> grpc.aio.Channel | None:
        nonlocal used
        pem = None if files is None else files.current()
        if pem is used:
            return None
        used = pem
        return open_channel(target, CHANNEL_OPTIONS, pem)

    def probe(where: str, name: str) -> grpc.aio.Channel:
        # The address was resolved from the name, which is the name in the certificate.
        options = (*PROBE_OPTIONS, (_NAME_OPTION, name)) if name and files is not None else PROBE_OPTIONS
        return open_channel(where, options, None if files is None else files.current())

    servers = address.servers if isinstance(address, Addresses) else (address,)
    watch = BackendWatch(
        [(one.host, one.port) if isinstance(one, Address) else str(one) for one in servers],
        probe,
        lambda: None if files is None else files.current().expires_at,
    )
    channel = RemoteChannel(open_channel(target, CHANNEL_OPTIONS, used), renewed)
    with watched_certificate(part, files, metrics), metrics.registered(watch.measured):
        async with watch:
            try:
                yield channel
            finally:
                await channel.close()


def _target(address: BackendAddress) -> str:
    return address.target if isinstance(address, Addresses) else str(address)


def _plain_target(address: BackendAddress) -> str:
    if not address.is_local:
        raise CommandError(f"The backend's address {address} {NEEDS_TLS} to call it with.", code="invalid_settings")
    return _target(address)


def _configuration(pem: "Pem") -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(pem.key, pem.certificate)], root_certificates=pem.ca)


def _credentials(pem: "Pem") -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(pem.ca, pem.key, pem.certificate)


def _name_override(tls: ClientTls) -> Options:
    return () if tls.server_name is None else ((_NAME_OPTION, tls.server_name),)
