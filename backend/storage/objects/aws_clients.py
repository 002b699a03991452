"""Clients of S3 and STS, made alike wherever they are needed."""

import functools
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from boto3.session import Session
    from botocore.config import Config
    from botocore.credentials import RefreshableCredentials
    from botocore.loaders import Loader
    from types_boto3_s3.client import S3Client
    from types_boto3_sts.client import STSClient

_CONNECT_SECONDS: Final = 3
_READ_SECONDS: Final = 10
_DEFAULT_REGION: Final = "us-east-1"

_LOG = logging.getLogger(__name__)


class AccessKey(NamedTuple):
    """Credentials that stay."""

    access_key_id: str
    secret_access_key: str


class SessionKey(NamedTuple):
    """Credentials of an assumed role, until `expires_at` in ISO 8601."""

    access_key_id: str
    secret_access_key: str
    session_token: str
    expires_at: str


Renewal = Callable[[], SessionKey]
"""Gives a session's key anew; its client calls it before the last one expires."""


class Endpoint(NamedTuple):
    """Whom a client speaks to, and how patiently: AWS itself where there is no `url`."""

    url: str | None
    region: str | None = None
    attempts: int = 2
    connections: int = 10


def s3_client(endpoint: Endpoint, credentials: AccessKey | Renewal | None = None) -> "S3Client":
    """A client of S3 with these credentials, or with those that the process finds for itself; thread-safe.

    Raises whatever a renewal does, here the first time and later where the client is used.
    """
    session = _session(credentials)
    region = endpoint.region or session.region_name or _DEFAULT_REGION
    client = session.client("s3", region_name=region, endpoint_url=endpoint.url, config=_config(endpoint))
    client.meta.events.register("before-parse.s3", _doubt_half_heads)
    return client


def _doubt_half_heads(operation_model: Any, response_dict: dict[str, Any], **_: object) -> None:
    """Has an answer tried again whose connection broke in mid-head.

    It ends like a whole head, and with no length in it what follows reads as empty: a listing without objects, a
    removal without errors. Bytes of objects are counted by whoever reads them.
    """
    if response_dict["status_code"] == 200 and not operation_model.has_streaming_output:
        names = {name.lower() for name in response_dict["headers"]}
        if names.isdisjoint({"content-length", "transfer-encoding"}):
            _LOG.warning("an answer of the store told no length, as one that breaks off in its head: it is asked again")
            response_dict["status_code"] = 500


def sts_client(endpoint: Endpoint, credentials: AccessKey | None = None) -> "STSClient":
    """A client of STS, as `s3_client`; stores beside AWS serve it at the same address."""
    session = _session(credentials)
    region = endpoint.region or session.region_name or _DEFAULT_REGION
    return session.client("sts", region_name=region, endpoint_url=endpoint.url, config=_config(endpoint))


def _session(credentials: AccessKey | Renewal | None) -> "Session":
    """A session of its own, as sessions are not thread-safe; what it knows of the services is shared."""
    import boto3
    import botocore.session

    core = botocore.session.Session()
    core.register_component("data_loader", _loader())
    if isinstance(credentials, AccessKey):
        core.set_credentials(*credentials)
    elif credentials is not None:
        core.register_component("credential_provider", _Renewed(credentials))
    return boto3.session.Session(botocore_session=core)


class _Renewed:
    """What a session of botocore asks for its credentials."""

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
    """The descriptions of the services, which take megabytes and a tenth of a second to read."""
    from botocore.loaders import create_loader

    return create_loader()


def _config(endpoint: Endpoint) -> "Config":
    from botocore.config import Config

    return Config(
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
        retries={"total_max_attempts": endpoint.attempts, "mode": "standard"},
        max_pool_connections=endpoint.connections,
        # Stores beside AWS rarely serve a host name for each bucket, and not all know the newer checksums. Without one
        # the signature covers the whole body, so that nothing arrives changed.
        s3={"addressing_style": "path" if endpoint.url else "auto"},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
