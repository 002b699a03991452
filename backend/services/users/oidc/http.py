"""HTTP client of the identity provider, bounded in time and size."""

import ipaddress
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from backend.services.users.oidc.tokens import Claims
from contract.versions import RELEASE

if TYPE_CHECKING:
    from aiohttp import ClientSession

_ANSWER_BYTES: Final = 262_144
_HEADER_BYTES: Final = 8_190


class ProviderError(Exception):
    """The provider cannot be reached, or breaks the protocol; the text is for the operator and holds no secret."""

    def __init__(self, message: str, status: int = 0) -> None:
        self.status = status
        super().__init__(message)


def is_safe(url: str) -> bool:
    """Returns whether requests may go to an address: over https, or to this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    if not host or parts.username or parts.password or parts.fragment:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host))


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class ProviderHttp:
    """A client for the requests of one sign-in; redirects are not followed, and proxies not used."""

    def __init__(self) -> None:
        self._session: ClientSession

    async def __aenter__(self) -> Self:
        import aiohttp

        self._session = aiohttp.ClientSession(
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"accept": "application/json", "user-agent": f"workflow-api/{RELEASE}"},
            max_line_size=_HEADER_BYTES,
            max_field_size=_HEADER_BYTES,
            trust_env=False,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def get(self, url: str, headers: Mapping[str, str] | None = None) -> Claims:
        """Returns the JSON object at an address.

        Raises:
            ProviderError: no JSON object can be read.
        """
        return await self._request_object("GET", url, headers=headers)

    async def post(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> Claims:
        """Sends a form, and returns the JSON object that answers it.

        Raises:
            ProviderError: no JSON object can be read.
        """
        return await self._request_object("POST", url, data=form, headers=headers)

    async def _request_object(self, method: str, url: str, **content: Any) -> Claims:
        import aiohttp

        if not is_safe(url):
            raise ProviderError("it names an address that is not https")
        where = urlsplit(url).netloc
        try:
            async with self._session.request(method, url, allow_redirects=False, **content) as response:
                if response.status != 200:
                    raise ProviderError(f"{where} answered {response.status}", response.status)
                body = bytearray()
                async for chunk in response.content.iter_any():
                    body += chunk
                    if len(body) > _ANSWER_BYTES:
                        raise ProviderError(f"{where} answered more than {_ANSWER_BYTES:,} bytes")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ProviderError(f"{where} cannot be reached ({type(error).__name__})") from error
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise ProviderError(f"{where} answered no JSON object")
        return answer
