"""HTTP client of webhooks: sends a message to an allowed address, within bounds of time and size."""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Mapping, Sequence
from typing import Final

import aiohttp
from yarl import URL

from backend.services.webhooks.rules import DeliveryOutcome, Network, is_allowed, is_private
from contract.versions import RELEASE

_AGENT: Final = f"workflow-api/{RELEASE}"
_HEADER_BYTES: Final = 8_190
_HEADERS: Final = 64


class _RefusedAddressError(OSError):
    """Connections to the address are not allowed."""


class Sender:
    """An HTTP client of one event loop; each attempt has a connection of its own.

    The address is checked when the socket is made, after names were resolved, so no answer of a name server can
    evade the check. Redirects are not followed, proxies not used, bodies of answers not read.
    """

    def __init__(self, private: Sequence[Network], timeout_seconds: float) -> None:
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        self._session = guarded_session(private, encrypted=True)
        # Unencrypted messages go to the private networks of the settings alone.
        self._plain_session = guarded_session(private, encrypted=False)

    async def post(self, url: str, body: str, headers: Mapping[str, str]) -> DeliveryOutcome:
        """Returns the outcome of one attempt; never raises for a failure of the receiver."""
        try:
            target = URL(url)
            session = self._session if target.scheme == "https" else self._plain_session
            async with session.post(
                target,
                data=body.encode(),
                headers={**headers, "content-type": "application/json", "user-agent": _AGENT},
                allow_redirects=False,
                timeout=self._timeout,
            ) as response:
                return _outcome(response.status)
        except TimeoutError:
            return DeliveryOutcome(None, "timeout")
        except aiohttp.ClientConnectorDNSError:
            return DeliveryOutcome(None, "name")
        except aiohttp.ClientSSLError:
            return DeliveryOutcome(None, "tls")
        except aiohttp.ClientConnectorError as error:
            return DeliveryOutcome(
                None, "address" if isinstance(error.os_error, _RefusedAddressError) else "connection"
            )
        except (aiohttp.ClientResponseError, aiohttp.ClientPayloadError):
            return DeliveryOutcome(None, "answer")
        except (aiohttp.ClientError, OSError, ValueError):
            return DeliveryOutcome(None, "connection")

    async def close(self) -> None:
        """Ends every connection."""
        await self._session.close()
        await self._plain_session.close()


def _outcome(status: int) -> DeliveryOutcome:
    if 200 <= status < 300:
        return DeliveryOutcome(status, None)
    return DeliveryOutcome(status, "redirect" if 300 <= status < 400 else "status")


def guarded_session(private: Sequence[Network], *, encrypted: bool) -> aiohttp.ClientSession:
    """Makes an HTTP client that connects to public addresses and `private` networks; unencrypted only to the latter."""

    def checked_socket(info: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, _, address = info
        reached = ipaddress.ip_address(str(address[0]).partition("%")[0])
        if not (is_allowed(reached, private) if encrypted else is_private(reached, private)):
            raise _RefusedAddressError(f"{reached} is not allowed")
        return socket.socket(family, kind, protocol)

    connector = aiohttp.TCPConnector(
        socket_factory=checked_socket,
        use_dns_cache=False,
        force_close=True,
        ssl=ssl.create_default_context(),
        # No limit here: the deliverer limits attempts.
        limit=0,
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        auto_decompress=False,
        max_line_size=_HEADER_BYTES,
        max_field_size=_HEADER_BYTES,
        max_headers=_HEADERS,
        loop=asyncio.get_running_loop(),
    )
