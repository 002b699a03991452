"""Clients of S3 and STS with the same settings for all users."""

import functools
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from backend.common.json_text import JsonObject

if TYPE_CHECKING:
    from boto3.session import Session
    from botocore.config import Config
    from botocore.credentials import RefreshableCredentials
    from botocore.loaders import Loader
    from botocore.model import OperationModel
    from types_boto3_s3.client import S3Client
    from types_boto3_sts.client import STSClient

_CONNECT_SECONDS: Final = 3
_READ_SECONDS: Final = 10
_DEFAULT_REGION: Final = "us-east-1"

_LOG = logging.getLogger(__name__)


class AccessKey(NamedTuple):
    """Credentials that do not expire."""

    access_key_id: str
    secret_access_key: str


class SessionKey(NamedTuple):
    """Credentials of an assumed role, until `expires_at` in ISO 8601."""

    access_key_id: str
    secret_access_key: str
    session_token: str
    expires_at: str


Renewal = Callable[[], SessionKey]
"""Returns a new session key; a client calls this before the last key expires."""


class Endpoint(NamedTuple):
    """The server of a client, AWS itself without a `url`; attempts of a request, and number of connections."""

    url: str | None
    region: str | None = None
    attempts: int = 2
    connections: int = 10


def s3_client(endpoint: Endpoint, credentials: AccessKey | Renewal | None = None) -> "S3Client":
    """Makes a thread-safe client of S3 with these credentials, or with those of the process's environment.

    Errors of a renewal are raised here the first time, and later by the client's requests.
    """
    session = _session(credentials)
    region = endpoint.region or session.region_name or _DEFAULT_REGION
    client = session.client("s3", region_name=region, endpoint_url=endpoint.url, config=_config(endpoint))
    client.meta.events.register("before-parse.s3", _retry_truncated_head)
    _bound_answers(client, endpoint)
    return client


def _retry_truncated_head(operation_model: "OperationModel", response_dict: JsonObject, **_: object) -> None:
    """Makes botocore retry a request whose response head was cut off by a lost connection.

    Such a head looks complete, and without a length in it the body reads as empty: a listing without objects, a removal
    without errors. Readers of objects count the bytes themselves.
    """
    if response_dict["status_code"] == 200 and not operation_model.has_streaming_output:
        names = {name.lower() for name in response_dict["headers"]}
        if names.isdisjoint({"content-length", "transfer-encoding"}):
            _LOG.warning(
                "A response of the object store has no length, as if its head was cut off; the request is retried"
            )
            response_dict["status_code"] = 500


def sts_client(endpoint: Endpoint, credentials: AccessKey | None = None) -> "STSClient":
    """Makes a client of STS as `s3_client`; stores other than AWS serve STS at the address of S3."""
    session = _session(credentials)
    region = endpoint.region or session.region_name or _DEFAULT_REGION
    client = session.client("sts", region_name=region, endpoint_url=endpoint.url, config=_config(endpoint))
    _bound_answers(client, endpoint)
    return client


def _bound_answers(client: Any, endpoint: Endpoint) -> None:
    from backend.storage.objects.bounded_answers import BoundedSession

    sender = client._endpoint  # noqa: SLF001 - no public place takes another session
    sender.http_session = BoundedSession(sender.http_session, redirects=endpoint.url is None)


def _session(credentials: AccessKey | Renewal | None) -> "Session":
    """Makes a session, as sessions are not thread-safe; descriptions of the services are shared."""
    import boto3
    import botocore.session

    core = botocore.session.Session()
    core.register_component("data_loader", _loader())
    if isinstance(credentials, AccessKey):
        core.set_credentials(*credentials)
    elif credentials is not None:
        core.register_component("credential_provider", _RenewedCredentials(credentials))
    return boto3.session.Session(botocore_session=core)


class _RenewedCredentials:
    """Provider of renewed credentials for a session of botocore."""

    def __init__(self, renewal: Renewal) -> None:
        self._renewal = renewal

    def load_credentials(self) -> "RefreshableCredentials":
        from botocore.credentials import RefreshableCredentials

        return RefreshableCredentials.create_from_metadata(self._renewed(), self._renewed, "sts-assume-role")

    def _renewed(self) -> dict[str, str]:
        key = self._renewal()
        return {
            "access_key": key.access_key_id,
            "secret_key": key.secret_access_key,
            "token": key.session_token,
            "expiry_time": key.expires_at,
        }


@functools.cache
def _loader() -> "Loader":
    """Loads the descriptions of the services once: they take megabytes and a tenth of a second."""
    from botocore.loaders import create_loader

    return create_loader()


def _config(endpoint: Endpoint) -> "Config":
    from botocore.config import Config

    return Config(
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
        retries={"total_max_attempts": endpoint.attempts, "mode": "standard"},
        max_pool_connections=endpoint.connections,
        # Stores other than AWS rarely serve a host name for each bucket, and not all know the newer checksums. Without
        # a checksum the signature covers the whole body, so that no change goes unnoticed.
        s3={"addressing_style": "path" if endpoint.url else "auto"},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
