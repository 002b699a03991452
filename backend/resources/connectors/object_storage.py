"""S3 for connectors: clients with endpoint, secret and role, lists of objects, and failures as texts for people."""

import json
import logging
import re
from typing import TYPE_CHECKING, Any, Final

from backend.common.json_text import JsonMapping
from backend.common.secrets import SecretError, Secrets
from backend.storage.objects import aws_clients as aws

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client
    from types_boto3_s3.type_defs import ListObjectsV2OutputTypeDef


_LONGEST_LOGGED: Final = 2_000
# Keys of objects may name people.
_RESOURCE: Final = re.compile(r"on resource: .*?(?= because |$)", re.DOTALL)
_DENIED: Final = frozenset(
    {"AccessDenied", "AccessDeniedException", "403", "InvalidAccessKeyId", "InvalidClientTokenId"}
)
# Temporary errors with a status below 500.
_TEMPORARY: Final = frozenset({"RequestTimeout", "Throttling", "ThrottlingException", "429"})
_NOT_IMPLEMENTED: Final = 501
# The client takes a truncated head of an answer as whole, and then cannot read the time in it.
_BROKEN_HEAD: Final = "Invalid timestamp"
_NO_STORE: Final = "what answers there does not speak as S3 and STS do"

_NO_CREDENTIALS: Final = "there are no credentials to ask the store with"
_GIVE_CREDENTIALS: Final = (
    "Name a secret with an access key in the connector's field `secret`; or give the service credentials of its own, "
    "by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or the role of its machine."
)
_FORM_OF_KEY: Final = 'Its value is a JSON object {"access_key_id": "...", "secret_access_key": "..."}.'

_LOG = logging.getLogger(__name__)


class CredentialsError(ValueError):
    """A connector's credentials cannot be used; the message says why, and holds no secret."""


class RoleError(CredentialsError):
    """A connector's role could not be assumed; this may be temporary."""


class NoStoreError(ValueError):
    """The endpoint answered, but it is no object storage."""

    def __init__(self) -> None:
        super().__init__(_NO_STORE)


def failures() -> tuple[type[Exception], ...]:
    """Returns the classes of errors that a client of S3 or STS raises."""
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    return BotoCoreError, ClientError, ResponseParserError, OSError, ValueError


def list_page(client: "S3Client", bucket: str, prefix: str, **more: Any) -> "ListObjectsV2OutputTypeDef":
    """Requests a page of a listing.

    Raises:
        NoStoreError: the answer is no listing; the client reads any other XML as an empty one.
    """
    page = client.list_objects_v2(Bucket=bucket, Prefix=prefix, **more)
    if not page.keys() >= {"IsTruncated"} or not all(one.keys() >= {"Key", "Size"} for one in page.get("Contents", ())):
        raise NoStoreError
    return page


def is_transient(error: BaseException | None) -> bool:
    """Returns whether the same request may succeed later."""
    from botocore import exceptions
    from botocore.parsers import ResponseParserError

    match error:
        case CredentialsError():
            return is_transient(error.__cause__)
        case exceptions.ClientError():
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            return code_of(error) in _TEMPORARY or (status >= 500 and status != _NOT_IMPLEMENTED)
        case exceptions.SSLError():
            return False
        case ValueError() if str(error).startswith(_BROKEN_HEAD):
            return True
    # Proxies answer with pages that the client cannot parse.
    return isinstance(
        error,
        (exceptions.HTTPClientError, exceptions.ConnectionError, exceptions.IncompleteReadError, ResponseParserError),
    )


def loggable(error: Exception) -> str:
    """Returns the text of a failure for the log: the store's message without the object's name and content."""
    from botocore.exceptions import ClientError

    if not isinstance(error, ClientError):
        return type(error).__name__
    return _RESOURCE.sub("on a resource", str(error))[:_LONGEST_LOGGED]


def explain(error: Exception, connector: JsonMapping) -> str:
    """Describes a failure for a person, by the store's code and the credentials denied; logs the store's message."""
    if not isinstance(error, ValueError):
        _LOG.warning("The store of bucket %s: %s", connector["bucket"], loggable(error))
    return _summary(error, _credentials_were(connector))


def _summary(error: Exception, credentials_were: str) -> str:
    from botocore import exceptions
    from botocore.parsers import ResponseParserError

    match error:
        case exceptions.ClientError() if code_of(error) in _DENIED:
            return f"{credentials_were} denied {error.operation_name} ({code_of(error)})"
        case exceptions.ClientError() if code_of(error).isdecimal():
            # An answer without an S3 error, so the code is its status; 500 if its body is not XML.
            return f"{_NO_STORE} ({code_of(error)})"
        case exceptions.ClientError():
            return f"the store answered {error.operation_name} with {code_of(error)}"
        case ResponseParserError():
            return _NO_STORE
        case exceptions.HTTPClientError() | exceptions.ConnectionError() | exceptions.IncompleteReadError():
            return f"the store does not answer, or breaks off ({type(error).__name__})"
        case exceptions.BotoCoreError():
            missing = isinstance(error, exceptions.NoCredentialsError)
            return _NO_CREDENTIALS if missing else f"the store could not be asked ({type(error).__name__})"
        case OSError():
            # Without the file name, which names folders of the host.
            return error.strerror or type(error).__name__
    return str(error)


def _credentials_were(connector: JsonMapping) -> str:
    """Names the credentials that a connector uses, as the beginning of a sentence."""
    if connector["role_arn"] is not None:
        return f"the role {connector['role_arn']} was"
    if connector.get("secret") is not None:
        return f"the credentials of secret '{connector['secret']}' were"
    return "the service's own credentials were"


def credentials_remedy(error: Exception) -> str:
    """Returns the remedy for missing or malformed credentials, as a sentence; "" for every other failure."""
    from botocore import exceptions

    match error:
        case exceptions.NoCredentialsError() | exceptions.PartialCredentialsError():
            return _GIVE_CREDENTIALS
        case CredentialsError() if isinstance(
            error.__cause__, exceptions.NoCredentialsError | exceptions.PartialCredentialsError
        ):
            return _GIVE_CREDENTIALS
        case RoleError():
            return ""
        case CredentialsError():
            return _FORM_OF_KEY
    return ""


def code_of(error: Exception) -> str:
    """Returns the store's error code; "" if it sent none."""
    response = getattr(error, "response", {})
    return str(response.get("Error", {}).get("Code") or "")


_ROLE_SECONDS: Final = 3_600


def s3_client(connector: JsonMapping, secrets: Secrets, attempts: int = 2) -> "S3Client":
    """Creates a client with the connector's secret, else the credentials of the process, and with its role if any.

    The client makes up to `attempts` of each request. It assumes the role again before each session ends; a failure to
    do so is raised by the request under way.

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
    role: str, endpoint: aws.Endpoint, credentials: aws.AccessKey | None, connector: JsonMapping
) -> aws.SessionKey:
    try:
        return _session_key(role, endpoint, credentials)
    except failures() as error:
        # The request was signed with the connector's credentials, not with the role's.
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
