"""Bounds on the answers of object stores, whose addresses are chosen in manifests.

Without bounds the client reads every answer other than an object into memory, however long, and follows redirects
without end.
"""

from collections.abc import Iterator
from typing import Any, Final

import urllib3.exceptions
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import BotoCoreError, ConnectionClosedError, ReadTimeoutError

MOST_BYTES: Final = 16 * 2**20
"""Bytes of an answer that is no object; a listing of 1,000 keys of the largest size has a fifth of that."""

_PART_BYTES: Final = 65_536
_ERRORS: Final = 300
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_REGION: Final = "x-amz-bucket-region"


class AnswerTooLargeError(BotoCoreError):
    """An answer that is no object has more bytes than any listing."""

    fmt = f"The answer has more than {MOST_BYTES:,} bytes."


class RedirectedError(BotoCoreError):
    """A store other than AWS answered with a redirect that names no region."""

    fmt = "The answer is a redirect."


class BoundedSession:
    """Wraps a session of botocore; with `redirects`, for AWS, redirects are followed as botocore follows them."""

    def __init__(self, session: Any, *, redirects: bool) -> None:
        self._session = session
        self._redirects = redirects

    def send(self, request: AWSPreparedRequest) -> AWSResponse:
        """Sends a request.

        Raises:
            AnswerTooLargeError: the answer is no object, and too large.
            RedirectedError: the answer is a redirect.
            botocore.exceptions.HTTPClientError: there is no whole answer.
        """
        streamed = request.stream_output
        request.stream_output = True
        try:
            response: AWSResponse = self._session.send(request)
        finally:
            request.stream_output = streamed
        if not self._redirects and response.status_code in _REDIRECTS and _REGION not in response.headers:
            response.raw.close()
            raise RedirectedError
        if not streamed or response.status_code >= _ERRORS:
            response.raw = _ReadAnswer(_read(request, response))
        return response

    def close(self) -> None:
        """Closes the connections."""
        self._session.close()


class _ReadAnswer:
    """An answer that was read whole."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self) -> Iterator[bytes]:
        yield self._content


def _read(request: AWSPreparedRequest, response: AWSResponse) -> bytes:
    content = bytearray()
    try:
        for part in response.raw.stream(_PART_BYTES):
            content += part
            if len(content) > MOST_BYTES:
                response.raw.close()
                raise AnswerTooLargeError
    except urllib3.exceptions.ReadTimeoutError as error:
        raise ReadTimeoutError(endpoint_url=request.url, error=error) from error
    except urllib3.exceptions.HTTPError as error:
        raise ConnectionClosedError(endpoint_url=request.url, request=request, error=error) from error
    return bytes(content)
