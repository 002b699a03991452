"""Creates S3 clients for connectors, with their endpoint, secret and role."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from backend.connectors.s3_errors import CredentialsError, NoStoreError, RoleError, explain, failures
from backend.secrets import SecretError, Secrets
from backend.storage.objects import aws_clients as aws

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

_ROLE_SECONDS: Final = 3_600


def s3_client(connector: Mapping[str, Any], secrets: Secrets, attempts: int = 2) -> "S3Client":
    """Creates a client with the connector's secret, else the credentials of the process, and with its role if any.

    The client makes up to `attempts` of each request. It assumes the role again before each session ends, and raises
    errors of that where it is used.

    Raises:
        CredentialsError: the secret cannot be used.
        RoleError: the role could not be assumed.
        botocore.exceptions.BotoCoreError: looking for the credentials of the process failed.
    """
    endpoint = aws.Endpoint(connector["endpoint_url"], attempts=attempts)
    # Connectors stored by an earlier release have no such field.
    secret = connector.get("secret")
    credentials = None if secret is None else _credentials(secret, secrets)
    role = connector["role_arn"]
    if role is None:
        return aws.s3_client(endpoint, credentials)
    return aws.s3_client(endpoint, lambda: _assume(role, endpoint, credentials, connector))


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


def _assume(
    role: str, endpoint: aws.Endpoint, credentials: aws.AccessKey | None, connector: Mapping[str, Any]
) -> aws.SessionKey:
    try:
        return _session_key(role, endpoint, credentials)
    except failures() as error:
        # The request was made with the other credentials, not with the role.
        why = explain(error, {**connector, "role_arn": None})
        raise RoleError(f"the role {role} could not be assumed: {why}") from error


def _session_key(role: str, endpoint: aws.Endpoint, credentials: aws.AccessKey | None) -> aws.SessionKey:
    try:
        key = aws.sts_client(endpoint, credentials).assume_role(
            RoleArn=role, RoleSessionName="workflow-api", DurationSeconds=_ROLE_SECONDS
        )["Credentials"]
        return aws.SessionKey(
            key["AccessKeyId"], key["SecretAccessKey"], key["SessionToken"], key["Expiration"].isoformat()
        )
    except LookupError as error:
        # The client reads an answer that is not from STS as one without these fields.
        raise NoStoreError from error
