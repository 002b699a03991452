"""What object storage answers, and how it fails: told in the connector's terms, with its own words in the log."""

import logging
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client
    from types_boto3_s3.type_defs import ListObjectsV2OutputTypeDef

_LONGEST_LOGGED: Final = 2_000
# Keys of objects may name people.
_RESOURCE: Final = re.compile(r"on resource: .*?(?= because |$)", re.DOTALL)
_DENIED: Final = frozenset(
    {"AccessDenied", "AccessDeniedException", "403", "InvalidAccessKeyId", "InvalidClientTokenId"}
)
# Below 500, yet a matter of time.
_PASSING: Final = frozenset({"RequestTimeout", "Throttling", "ThrottlingException", "429"})
_NOT_IMPLEMENTED: Final = 501
_NO_STORE: Final = "what answers there does not speak as S3 and STS do"

_LOG = logging.getLogger(__name__)


class CredentialsError(ValueError):
    """A connector's credentials could not be had; the message says why, and never holds a secret."""


class RoleError(CredentialsError):
    """A connector's role could not be assumed, which may pass."""


class NoStoreError(ValueError):
    """Something answered that is no object storage."""

    def __init__(self) -> None:
        super().__init__(_NO_STORE)


def failures() -> tuple[type[Exception], ...]:
    """What a client of S3 or STS may raise."""
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    return BotoCoreError, ClientError, ResponseParserError, OSError, ValueError


def list_page(client: "S3Client", bucket: str, prefix: str, **more: Any) -> "ListObjectsV2OutputTypeDef":
    """A page of a listing.

    Raises:
        NoStoreError: the answer is no listing; the client takes any XML for an empty one.
    """
    page = client.list_objects_v2(Bucket=bucket, Prefix=prefix, **more)
    if not page.keys() >= {"IsTruncated"} or not all(one.keys() >= {"Key", "Size"} for one in page.get("Contents", ())):
        raise NoStoreError
    return page


def may_pass(error: BaseException | None) -> bool:
    """Whether the same request may well succeed a little later."""
    from botocore import exceptions
    from botocore.parsers import ResponseParserError

    match error:
        case CredentialsError():
            return may_pass(error.__cause__)
        case exceptions.ClientError():
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            return code_of(error) in _PASSING or (status >= 500 and status != _NOT_IMPLEMENTED)
        case exceptions.SSLError():
            return False
    # Pages of proxies stand in the place of a store's errors.
    return isinstance(
        error,
        (exceptions.HTTPClientError, exceptions.ConnectionError, exceptions.IncompleteReadError, ResponseParserError),
    )


def loggable(error: Exception) -> str:
    """What the log may hold of a failure: a store's own words, but not which object it is about, nor what it sent."""
    from botocore.exceptions import ClientError

    if not isinstance(error, ClientError):
        return type(error).__name__
    return _RESOURCE.sub("on a resource", str(error))[:_LONGEST_LOGGED]


def explain(error: Exception, connector: Mapping[str, Any]) -> str:
    """What a failure means, for a person: the store's code, and who was denied; the store's own words go to the log."""
    if not isinstance(error, ValueError):
        _LOG.warning("The store of bucket %s: %s", connector["bucket"], loggable(error))
    return _in_short(error, _who(connector))


def _in_short(error: Exception, asking: str) -> str:
    from botocore import exceptions
    from botocore.parsers import ResponseParserError

    match error:
        case exceptions.ClientError() if code_of(error) in _DENIED:
            return f"{asking} denied {error.operation_name} ({code_of(error)})"
        case exceptions.ClientError() if code_of(error).isdecimal():
            # The status of an answer without an error of S3; the client makes 500 of a body that is no XML.
            return f"{_NO_STORE} ({code_of(error)})"
        case exceptions.ClientError():
            return f"the store answered {error.operation_name} with {code_of(error)}"
        case ResponseParserError():
            return _NO_STORE
        case exceptions.HTTPClientError() | exceptions.ConnectionError() | exceptions.IncompleteReadError():
            return f"the store does not answer, or breaks off ({type(error).__name__})"
        case exceptions.BotoCoreError():
            return f"the store could not be asked ({type(error).__name__})"
        case OSError():
            # What the system says of a file names the host's folders.
            return error.strerror or type(error).__name__
    return str(error)


def _who(connector: Mapping[str, Any]) -> str:
    """Whose credentials a connector uses, with a verb."""
    if connector["role_arn"] is not None:
        return f"the role {connector['role_arn']} was"
    if connector.get("secret") is not None:
        return f"the credentials of secret '{connector['secret']}' were"
    return "the service's own credentials were"


def code_of(error: Exception) -> str:
    """The store's code, empty where it sent none."""
    response = getattr(error, "response", {})
    return str(response.get("Error", {}).get("Code") or "")
