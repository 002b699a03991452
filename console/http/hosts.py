"""Checks the `Host` header, as protection against DNS rebinding."""

import re
from ipaddress import ip_address
from typing import Final

from aiohttp import web

from console.settings import ConsoleSettings
from contract.addresses import plain_address

_HOST: Final = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<name>[^:\[\]]+?)\.?)(?::[0-9]{1,5})?")
_REFUSED: Final = (
    "This console is not served under that name. Its operator names the hosts that browsers reach it by in the setting "
    "console.hosts; without it, ask for the very address that it listens on."
)


def check_host(request: web.Request, settings: ConsoleSettings) -> None:
    """Refuses a request for a host that is not configured; by default the host must be the address that it came to.

    Raises:
        HTTPMisdirectedRequest: the host is missing, malformed or not served here.
    """
    given = request.headers.getall("Host", [])
    found = _HOST.fullmatch(given[0]) if len(given) == 1 else None
    host = (found["ipv6"] or found["name"]).lower() if found else ""
    if not host or not (host in settings.hosts if settings.hosts else _is_own_address(host, request, settings)):
        raise web.HTTPMisdirectedRequest(text=_REFUSED)


def _is_own_address(host: str, request: web.Request, settings: ConsoleSettings) -> bool:
    local = request.get_extra_info("sockname")
    own_address = plain_address(local[0]) if isinstance(local, tuple) else ""
    if plain_address(host):
        return plain_address(host) == own_address
    if host == "localhost":
        return bool(own_address) and ip_address(own_address).is_loopback
    return host == settings.host.lower()
