"""Determines a browser's address, for limits and the audit (contract 8.9)."""

from aiohttp import web

from contract.addresses import plain_address, viewer_header


def source_of(request: web.Request, client_address: str) -> str:
    """Returns the browser's address by the setting `client_address`; empty where it is unknown."""
    name = viewer_header(client_address)
    if name is not None:
        values = request.headers.getall(name, [])
        return plain_address(values[0].strip()) if len(values) == 1 else ""
    if client_address == "peer":
        return plain_address(request.remote or "")
    # The load balancer appends the address that it saw; entries before that come from the browser.
    forwarded = request.headers.getall("X-Forwarded-For", [""])
    return plain_address(forwarded[-1].rpartition(",")[2].strip())
