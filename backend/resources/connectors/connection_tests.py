"""Tests of connections: list the first object under each prefix, within a bounded time."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

from backend.common.json_text import JsonMapping
from backend.common.secrets import Secrets
from backend.resources.connectors.object_storage import (
    CredentialsError,
    NoStoreError,
    RoleError,
    code_of,
    credentials_remedy,
    explain,
    failures,
    list_page,
    loggable,
    s3_client,
)

TEST_SECONDS: Final = 10.0
MOST_AT_ONCE: Final = 4

_LONGEST_MESSAGE: Final = 1_000
_LONGEST_ANSWER: Final = 500

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


class TooManyTestsError(Exception):
    """The most allowed tests are under way already."""


@dataclass(frozen=True, slots=True)
class PrefixTest:
    """Result of listing one prefix of a bucket.

    Attributes:
        place: As `s3://bucket/prefix/`.
        http_status: 0 where the store did not answer.
        code: The store's own error code.
        answer: The store's message, without names of objects.
        empty: Whether the prefix has no objects.
        remedy: Remedy for a failure, as sentences.
        milliseconds: Duration of the listing.
    """

    place: str
    passed: bool
    milliseconds: int
    http_status: int = 0
    code: str = ""
    answer: str = ""
    empty: bool = False
    remedy: str = ""


@dataclass(slots=True)
class ConnectionTestOutcome:
    """The outcome of a test, for a person; checks end with the first that failed."""

    passed: bool
    message: str
    checks: list[PrefixTest] = field(default_factory=list)


class ConnectionTests:
    """Tests connections, each in a thread that callers await for at most `seconds`. Thread-safe.

    A store that sends its answer byte by byte could hold a test for hours; it then holds only the test's own thread.
    """

    def __init__(self, seconds: float = TEST_SECONDS, most_at_once: int = MOST_AT_ONCE) -> None:
        self._seconds = seconds
        self._free = threading.BoundedSemaphore(most_at_once)

    def run(self, connector: JsonMapping, secrets: Secrets) -> ConnectionTestOutcome:
        """Tests a connector with its own credentials.

        Raises:
            TooManyTestsError: too many tests have not ended yet.
        """
        if not self._free.acquire(blocking=False):
            raise TooManyTestsError
        test = _Test(connector, secrets)

        def work() -> None:
            try:
                test.run()
            finally:
                self._free.release()

        threading.Thread(target=work, name="connection-test", daemon=True).start()
        if not test.done.wait(self._seconds):
            return test.late(self._seconds)
        return test.outcome()


class _Test:
    """One test; its results so far may be read while it still runs."""

    def __init__(self, connector: JsonMapping, secrets: Secrets) -> None:
        self._connector = connector
        self._secrets = secrets
        self._places = [f"s3://{connector['bucket']}/{prefix}" for prefix in connector["prefixes"] or [""]]
        self._checks: list[PrefixTest] = []
        self._message = ""
        self._defect: Exception | None = None
        self.done = threading.Event()

    def run(self) -> None:
        """Lists place after place, until one fails."""
        bucket = self._connector["bucket"]
        place, began = f"s3://{bucket}/", monotonic()
        try:
            client = s3_client(self._connector, self._secrets)
            for place in self._places:
                began = monotonic()
                page = list_page(client, bucket, place.removeprefix(f"s3://{bucket}/"), MaxKeys=1)
                status = page["ResponseMetadata"]["HTTPStatusCode"]
                empty = not page.get("Contents")
                self._checks.append(PrefixTest(place, True, _milliseconds(began), http_status=status, empty=empty))
            listed = ", ".join(self._connector["prefixes"]) or "the whole bucket"
            self._message = f"Listed {listed} of {bucket}."
        except failures() as error:
            failed = f"Listing {place} failed: {explain(error, self._connector)}"
            remedy = credentials_remedy(error)
            self._message = f"{failed}. {remedy}" if remedy else failed
            self._checks.append(_failed(place, error, _milliseconds(began)))
        except Exception as error:  # noqa: BLE001 - raised where the outcome is read
            self._defect = error
        finally:
            self.done.set()

    def outcome(self) -> ConnectionTestOutcome:
        """Returns the outcome once the test is done; raises errors that no outcome can express."""
        if self._defect is not None:
            raise self._defect
        passed = len(self._checks) == len(self._places) and all(check.passed for check in self._checks)
        return ConnectionTestOutcome(passed, self._message[:_LONGEST_MESSAGE], self._checks)

    def late(self, seconds: float) -> ConnectionTestOutcome:
        """Returns the outcome of a test that is not done after `seconds`."""
        checks = list(self._checks)
        place = self._places[min(len(checks), len(self._places) - 1)]
        why = f"there was no whole answer within {seconds:g} seconds"
        remedy = "Look at the load of the store and at the network between; with many prefixes, name fewer."
        late = PrefixTest(place, False, round(seconds * 1000), answer=why, remedy=remedy)
        return ConnectionTestOutcome(False, f"Listing {place} failed: {why}"[:_LONGEST_MESSAGE], [*checks, late])


def _failed(place: str, error: Exception, milliseconds: int) -> PrefixTest:
    from botocore.exceptions import ClientError

    cause = error.__cause__ if isinstance(error, CredentialsError) and error.__cause__ is not None else error
    answered = cause if isinstance(cause, ClientError) else None
    return PrefixTest(
        place,
        False,
        milliseconds,
        http_status=0 if answered is None else http_status_of(answered),
        code="" if answered is None else code_of(answered),
        answer=_words(error, answered),
        remedy=remedy_for(error),
    )


def _words(error: Exception, answered: Exception | None) -> str:
    if answered is not None:
        return loggable(answered)[:_LONGEST_ANSWER]
    return "It was not asked." if isinstance(error, CredentialsError) and error.__cause__ is None else ""


def _milliseconds(began: float) -> int:
    return round((monotonic() - began) * 1000)


def remedy_for(error: Exception) -> str:
    """Returns the remedy for a failure of the store, as sentences; "" if none is known."""
    from botocore import exceptions

    known = credentials_remedy(error)
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
    answer: JsonMapping = getattr(error, "response", {})
    return int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
