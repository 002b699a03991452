"""Reads object storage as a connector allows: at its endpoint, with its secret, in its role."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from backend.secrets import SecretError, Secrets
from backend.storage import aws

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

_ROLE_SECONDS: Final = 3_600
_LONGEST_MESSAGE: Final = 500
_DENIED: Final = frozenset(
    {"AccessDenied", "AccessDeniedException", "403", "InvalidAccessKeyId", "InvalidClientTokenId"}
)


class CredentialsError(ValueError):
    """A connector's credentials could not be had; the message says why, and never holds a secret."""


class RoleError(CredentialsError):
    """A connector's role could not be assumed, which may pass."""


def s3_client(connector: Mapping[str, Any], secrets: Secrets) -> "S3Client":
    """A client with the connector's credentials: its secret's, else the process's own, and with them its role's.

    A role is assumed anew before its session ends; what keeps it from being so is raised where the client is used.

    Raises:
        CredentialsError: the secret cannot be used, or the role could not be assumed.
        botocore.exceptions.BotoCoreError: there are no credentials, or STS does not answer.
    """
    endpoint = aws.Endpoint(connector["endpoint_url"])
    # Connectors that were applied by an earlier release have no field for it.
    secret = connector.get("secret")
    credentials = None if secret is None else _credentials(secret, secrets)
    role = connector["role_arn"]
    if role is None:
        return aws.s3_client(endpoint, credentials)
    return aws.s3_client(endpoint, lambda: _assume(role, endpoint, credentials))


def try_connection(connector: Mapping[str, Any], secrets: Secrets) -> tuple[bool, str]:
    """Lists the first object under each prefix that the connector may read: whether all could be, and what happened."""
    from botocore.exceptions import BotoCoreError, ClientError

    place = f"s3://{connector['bucket']}/"
    try:
        client = s3_client(connector, secrets)
        for prefix in connector["prefixes"] or [""]:
            place = f"s3://{connector['bucket']}/{prefix}"
            client.list_objects_v2(Bucket=connector["bucket"], Prefix=prefix, MaxKeys=1)
    except (BotoCoreError, ClientError, ValueError) as error:
        return False, f"Listing {place} failed: {explain(error, connector)}"[:_LONGEST_MESSAGE]
    return True, f"Listed {', '.join(connector['prefixes']) or 'the whole bucket'} of {connector['bucket']}."[
        :_LONGEST_MESSAGE
    ]


def explain(error: Exception, connector: Mapping[str, Any]) -> str:
    """What a store's answer means, for a person: who was denied what, with the store's own words."""
    from botocore.exceptions import ClientError

    if isinstance(error, ClientError) and error.response.get("Error", {}).get("Code") in _DENIED:
        return f"{_who(connector)} denied: {error}"
    return str(error)


def _who(connector: Mapping[str, Any]) -> str:
    if connector["role_arn"] is not None:
        return f"the role {connector['role_arn']} was"
    if connector.get("secret") is not None:
        return f"the credentials of secret '{connector['secret']}' were"
    return "the service's own credentials were"


def _credentials(name: str, secrets: Secrets) -> aws.AccessKey:
    try:
        value = secrets.get(name)
    except SecretError as error:
        raise CredentialsError(str(error)) from None
    try:
        found = json.loads(value)
        key_id, secret = found["access_key_id"], found["secret_access_key"]
    except (ValueError, TypeError, LookupError):
        key_id = secret = None
    if not (isinstance(key_id, str) and key_id and isinstance(secret, str) and secret):
        raise CredentialsError(f"the secret '{name}' must be a JSON object with access_key_id and secret_access_key")
    return aws.AccessKey(key_id, secret)


def _assume(role: str, endpoint: aws.Endpoint, credentials: aws.AccessKey | None) -> aws.SessionKey:
    from botocore.exceptions import ClientError

    try:
        assumed = aws.sts_client(endpoint, credentials).assume_role(
            RoleArn=role, RoleSessionName="workflow-api", DurationSeconds=_ROLE_SECONDS
        )["Credentials"]
    except ClientError as error:
        raise RoleError(f"the role {role} could not be assumed: {error}") from error
    return aws.SessionKey(
        assumed["AccessKeyId"],
        assumed["SecretAccessKey"],
        assumed["SessionToken"],
        assumed["Expiration"].isoformat(),
    )
