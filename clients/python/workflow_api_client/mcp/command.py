"""The command `workflow-api-mcp`: offers the workflows of a key as tools, over stdio or HTTP."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from typing import Final

# Hosts for which the library refuses requests from web pages of other origins.
_LOCAL: Final = ("127.0.0.1", "localhost", "::1")
LONGEST_WAIT_SECONDS: Final = 86_400
_DESCRIPTION: Final = """\
Offers every workflow within a key's reach as a tool of the Model Context Protocol, over standard input and output.

WORKFLOW_API_URL, WORKFLOW_API_KEY and WORKFLOW_API_EXTERNAL_ID of the environment name the service and the
key. Every client of the server acts with that key, so over HTTP it listens on this machine alone."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="workflow-api-mcp", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--http", metavar="HOST:PORT", type=_address, help="streamable HTTP at /mcp, as 127.0.0.1:8900")
    parser.add_argument(
        "--wait",
        type=_seconds,
        default=45.0,
        metavar="SECONDS",
        help="how long one call follows its run (45): less than the host's time-out of a call, which is often 60",
    )
    given = parser.parse_args(arguments)
    try:
        asyncio.run(_serve(given.http, given.wait))
    except ImportError as error:
        sys.stderr.write(f"workflow-api-mcp: {error.name} is missing: pip install 'workflow-api-client[mcp]'\n")
        return 2
    except ValueError as error:
        sys.stderr.write(f"workflow-api-mcp: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


async def _serve(address: tuple[str, int] | None, wait_seconds: float) -> None:
    # Imported here, so that a missing extra gives one line that says what to install.
    import uvicorn
    from mcp.server.stdio import stdio_server

    from workflow_api_client.async_client import AsyncClient
    from workflow_api_client.mcp.server import WorkflowTools

    async with AsyncClient.from_env() as client:
        server = WorkflowTools(client, wait_seconds).server()
        if address is None:
            async with stdio_server() as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())
            return
        host, port = address
        app = server.streamable_http_app(host=host)
        await uvicorn.Server(uvicorn.Config(app, host=host, port=port, log_level="warning")).serve()


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= LONGEST_WAIT_SECONDS:
        raise argparse.ArgumentTypeError(f"must be from 0 to {LONGEST_WAIT_SECONDS} seconds, which {text!r} is not")
    return seconds


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.strip("[]")
    try:
        number = int(port)
    except ValueError:
        raise argparse.ArgumentTypeError("must be HOST:PORT, as 127.0.0.1:8900") from None
    if host not in _LOCAL:
        raise argparse.ArgumentTypeError(
            "must be an address of this machine alone: every client of the server acts with the key. For others put a "
            "proxy in front that authenticates them."
        )
    return host, number


if __name__ == "__main__":
    sys.exit(main())
