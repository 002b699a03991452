"""Clients of S3 and STS, made alike wherever they are needed."""

import functools
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from boto3.session import Session
    from botocore.config import Config
    from botocore.loaders import Loader
    from types_boto3_s3.client import S3Client
    from types_boto3_sts.client import STSClient

_CONNECT_SECONDS: Final = 3
_READ_SECONDS: Final = 10
_DEFAULT_REGION: Final = "us-east-1"


class Credentials(NamedTuple):
    """An access key; the token is that of an assumed role."""

    access_key_id: str
    secret_access_key: str
    session_token: str | None = None


class Endpoint(NamedTuple):
    """Whom a client speaks to, and how patiently: AWS itself where there is no `url`."""

    url: str | None
    region: str | None = None
    attempts: int = 2
    connections: int = 10


def s3_client(endpoint: Endpoint, credentials: Credentials | None = None) -> "S3Client":
    """A client of S3 with these credentials, or with those that the process finds for itself; thread-safe."""
    session = _session()
    key_id, secret, token = credentials or (None, None, None)
    return session.client(
        "s3",
        region_name=endpoint.region or session.region_name or _DEFAULT_REGION,
        endpoint_url=endpoint.url,
        aws_access_key_id=key_id,
        aws_secret_access_key=secret,
        aws_session_token=token,
        config=_config(endpoint),
    )


def sts_client(endpoint: Endpoint, credentials: Credentials | None = None) -> "STSClient":
    """A client of STS, as `s3_client`; stores beside AWS serve it at the same address."""
    session = _session()
    key_id, secret, token = credentials or (None, None, None)
    return session.client(
        "sts",
        region_name=endpoint.region or session.region_name or _DEFAULT_REGION,
        endpoint_url=endpoint.url,
        aws_access_key_id=key_id,
        aws_secret_access_key=secret,
        aws_session_token=token,
        config=_config(endpoint),
    )


def _session() -> "Session":
    """A session of its own, as sessions are not thread-safe; what it knows of the services is shared."""
    import boto3
    import botocore.session

    core = botocore.session.Session()
    core.register_component("data_loader", _loader())
    return boto3.session.Session(botocore_session=core)


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
