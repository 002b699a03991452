"""What an administrator can do about a failure of a connector's store."""

from collections.abc import Mapping
from typing import Any, Final

from backend.connectors.s3_errors import CredentialsError, NoStoreError, RoleError, advice, code_of

_BY_CODE: Final[Mapping[str, str]] = {
    "NoSuchBucket": "Correct `bucket` of the connector, or create the bucket in this store.",
    "InvalidBucketName": "Correct `bucket` of the connector.",
    "InvalidAccessKeyId": "The store does not know the access key: write a valid one into the secret.",
    "InvalidClientTokenId": "The store does not know the access key: write a valid one into the secret.",
    "SignatureDoesNotMatch": "The secret access key does not belong to the access key: write both into the secret.",
    "ExpiredToken": "The credentials have expired: write valid ones into the secret.",
    "RequestTimeTooSkewed": "The clocks of this machine and of the store differ too much: synchronise them.",
    "AuthorizationHeaderMalformed": "The bucket is in another region: set AWS_REGION of the service to it.",
    "PermanentRedirect": "The bucket is in another region: set AWS_REGION of the service to it.",
    "IllegalLocationConstraintException": "The bucket is in another region: set AWS_REGION of the service to it.",
    "SlowDown": "The store is busy: test again in a minute.",
}
_DENIED: Final = "Allow these credentials s3:ListBucket on the bucket with this prefix, and s3:GetObject for runs."
_DENIED_ROLE: Final = "Let the role's trust policy allow these credentials sts:AssumeRole."
_DENIED_CODES: Final = frozenset({"AccessDenied", "AccessDeniedException", "403"})
_ADDRESS: Final = (
    "Check `endpoint_url` of the connector: the machine of the backend must reach it, and it must be the address of "
    "the S3 interface, not of a web page."
)
_CERTIFICATE: Final = "Have this machine trust the certificate of the store, or correct `endpoint_url`."
_LATER: Final = "The store has a problem of its own: look at its logs, or test again later."
_SERVER_ERROR: Final = 500


def remedy(error: Exception) -> str:
    """Returns what can be done about a failure of the store, as sentences; "" where nothing is known."""
    from botocore import exceptions

    known = advice(error)
    if known:
        return known
    asked_for_role = isinstance(error, RoleError)
    cause = error.__cause__ if isinstance(error, CredentialsError) and error.__cause__ is not None else error
    match cause:
        case exceptions.ClientError() if code_of(cause) in _BY_CODE:
            return _BY_CODE[code_of(cause)]
        case exceptions.ClientError() if code_of(cause) in _DENIED_CODES:
            return _DENIED_ROLE if asked_for_role else _DENIED
        case exceptions.ClientError() if http_status_of(cause) >= _SERVER_ERROR:
            return _LATER
        case exceptions.SSLError():
            return _CERTIFICATE
        case NoStoreError() | exceptions.HTTPClientError() | exceptions.ConnectionError():
            return _ADDRESS
    return ""


def http_status_of(error: BaseException) -> int:
    """Returns the HTTP status that the store answered with; 0 where it did not answer."""
    answer: Mapping[str, Any] = getattr(error, "response", {})
    return int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
