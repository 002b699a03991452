"""gRPC channels and credentials: plain text on this machine only, mutual TLS anywhere."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import grpc
import grpc.aio

from deploy.config.addresses import Addresses, BackendAddress, GrpcAddress
from deploy.config.rules import NEEDS_TLS
from deploy.config.settings import ClientTls, ServerTls
from deploy.failures import CommandError

if TYPE_CHECKING:
    from deploy.transport.certificates import CertificateFiles, Pem
    from edge.channel.remote import RemoteChannel

Options = Sequence[tuple[str, Any]]

_NAME_OPTION: Final = "grpc.ssl_target_name_override"


def listening_credentials(tls: ServerTls) -> grpc.ServerCredentials | None:
    """Returns a backend's credentials, None for plain text; new connections use the current certificate files.

    Raises:
        CommandError: the certificate cannot be used; the message says why.
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
    """Opens a channel for a short-lived client.

    Raises:
        CommandError: the certificate cannot be used, or there is none and the address is not on this machine.
    """
    if not tls.given:
        return grpc.insecure_channel(_plain_target(address), options=options)
    return grpc.secure_channel(str(address), _credentials(_files(tls).first), options=[*options, *_name_override(tls)])


def serving_channel(address: BackendAddress, tls: ClientTls) -> "RemoteChannel":
    """Opens a channel for a serving process, which follows changes of the certificate files.

    Raises:
        CommandError: as `calling_channel`.
    """
    from edge.channel.remote import CHANNEL_OPTIONS, RemoteChannel

    if not tls.given:
        return RemoteChannel(grpc.aio.insecure_channel(_plain_target(address), options=CHANNEL_OPTIONS))
    files = _files(tls)

    def secure_channel(pem: "Pem") -> grpc.aio.Channel:
        return grpc.aio.secure_channel(
            _target(address), _credentials(pem), options=[*CHANNEL_OPTIONS, *_name_override(tls)]
        )

    def renewed() -> grpc.aio.Channel | None:
        pem = files.renewed()
        return None if pem is None else secure_channel(pem)

    return RemoteChannel(secure_channel(files.first), renewed)


def _target(address: BackendAddress) -> str:
    return address.target if isinstance(address, Addresses) else str(address)


def _plain_target(address: BackendAddress) -> str:
    if not address.is_local:
        raise CommandError(f"The backend's address {address} {NEEDS_TLS} to call it with.", code="invalid_settings")
    return _target(address)


def _files(tls: ServerTls) -> "CertificateFiles":
    from deploy.transport.certificates import CertificateFiles

    return CertificateFiles(tls)


def _configuration(pem: "Pem") -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(pem.key, pem.certificate)], root_certificates=pem.ca)


def _credentials(pem: "Pem") -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(pem.ca, pem.key, pem.certificate)


def _name_override(tls: ClientTls) -> Options:
    return () if tls.server_name is None else ((_NAME_OPTION, tls.server_name),)
