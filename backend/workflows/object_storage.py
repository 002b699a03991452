"""Reads object storage as a connector allows: with its endpoint, and its role where it has one."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from botocore.config import Config
    from types_boto3_s3.client import S3Client

_CONNECT_SECONDS: Final = 3
_READ_SECONDS: Final = 10
_DEFAULT_REGION: Final = "us-east-1"
_ROLE_SECONDS: Final = 3_600
_LONGEST_MESSAGE: Final = 500


def s3_client(connector: Mapping[str, Any]) -> "S3Client":
    """A client with the process's own credentials, or those of the connector's role.

    Raises:
        botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError: the role could not be assumed.
    """
    import boto3

    session = boto3.session.Session()
    region = session.region_name or _DEFAULT_REGION
    endpoint = connector["endpoint_url"]
    if connector["role_arn"] is not None:
        sts = session.client("sts", region_name=region, endpoint_url=endpoint, config=_config(endpoint))
        credentials = sts.assume_role(
            RoleArn=connector["role_arn"], RoleSessionName="workflow-api", DurationSeconds=_ROLE_SECONDS
        )["Credentials"]
        session = boto3.session.Session(
            aws_access_key_id=credentials["AccessKeyId"],
            aws_secret_access_key=credentials["SecretAccessKey"],
            aws_session_token=credentials["SessionToken"],
        )
    return session.client("s3", region_name=region, endpoint_url=endpoint, config=_config(endpoint))


def try_connection(connector: Mapping[str, Any]) -> tuple[bool, str]:
    """Lists the first object under each prefix that the connector may read: whether all could be, and what happened."""
    from botocore.exceptions import BotoCoreError, ClientError

    place = f"s3://{connector['bucket']}/"
    try:
        client = s3_client(connector)
        for prefix in connector["prefixes"] or [""]:
            place = f"s3://{connector['bucket']}/{prefix}"
            client.list_objects_v2(Bucket=connector["bucket"], Prefix=prefix, MaxKeys=1)
    except (BotoCoreError, ClientError, ValueError) as error:
        return False, f"Listing {place} failed: {error}"[:_LONGEST_MESSAGE]
    return True, f"Listed {', '.join(connector['prefixes']) or 'the whole bucket'} of {connector['bucket']}."[
        :_LONGEST_MESSAGE
    ]


def _config(endpoint: str | None) -> "Config":
    from botocore.config import Config

    return Config(
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
        retries={"total_max_attempts": 2},
        # Stores beside AWS rarely serve a host name for each bucket.
        s3={"addressing_style": "path" if endpoint else "auto"},
    )
