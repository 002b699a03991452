"""gRPC between the parts: plain on this machine only, by certificates of both sides anywhere."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import grpc
import grpc.aio

from deploy.config.addresses import Addresses, BackendAddress, GrpcAddress
from deploy.config.rules import NEEDS_TLS
from deploy.config.settings import ClientTls, ServerTls
from deploy.failures import CommandFailed

if TYPE_CHECKING:
    from deploy.transport.certificates import CertificateFiles, Pem
    from edge.channel.remote import RemoteChannel

Options = Sequence[tuple[str, Any]]

_NAME_OPTION: Final = "grpc.ssl_target_name_override"


def listening_credentials(tls: ServerTls) -> grpc.ServerCredentials | None:
    """Return what a backend listens with, None for plainly; each new connection is met with the files as they are then.

    Raises:
        CommandFailed: the certificate cannot be used; the message says why.
    """
    if not tls.given:
        return None
    files = _files(tls)

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        pem = files.renewed()
        return None if pem is None else _configuration(pem)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(files.first),
        renewed,  # type: ignore[arg-type]  # grpc documents None for no change
        require_client_authentication=True,
    )


def calling_channel(address: GrpcAddress, tls: ClientTls, options: Options) -> grpc.Channel:
    """Open a channel for a few calls; raises as `listening_credentials` does, and for a plain one off this machine."""
    if not tls.given:
        return grpc.insecure_channel(_plain(address), options=options)
    return grpc.secure_channel(str(address), _credentials(_files(tls).first), options=[*options, *_name(tls)])


def serving_channel(address: BackendAddress, tls: ClientTls) -> "RemoteChannel":
    """Open a channel for a process that goes on calling, with the files as they come to be; raises as the other."""
    from edge.channel.remote import CHANNEL_OPTIONS, RemoteChannel

    if not tls.given:
        return RemoteChannel(grpc.aio.insecure_channel(_plain(address), options=CHANNEL_OPTIONS))
    files = _files(tls)

    def opened(pem: "Pem") -> grpc.aio.Channel:
        return grpc.aio.secure_channel(_target(address), _credentials(pem), options=[*CHANNEL_OPTIONS, *_name(tls)])

    def renewed() -> grpc.aio.Channel | None:
        pem = files.renewed()
        return None if pem is None else opened(pem)

    return RemoteChannel(opened(files.first), renewed)


def _target(address: BackendAddress) -> str:
    return address.target if isinstance(address, Addresses) else str(address)


def _plain(address: BackendAddress) -> str:
    if not address.is_local:
        raise CommandFailed(f"The backend's address {address} {NEEDS_TLS} to call it with.", code="invalid_settings")
    return _target(address)


def _files(tls: ServerTls) -> "CertificateFiles":
    from deploy.transport.certificates import CertificateFiles

    return CertificateFiles(tls)


def _configuration(pem: "Pem") -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(pem.key, pem.certificate)], root_certificates=pem.ca)


def _credentials(pem: "Pem") -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(pem.ca, pem.key, pem.certificate)


def _name(tls: ClientTls) -> Options:
    return () if tls.server_name is None else ((_NAME_OPTION, tls.server_name),)
