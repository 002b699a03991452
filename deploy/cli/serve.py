"""`workflow-api serve`: serves all parts in one process."""

import os
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Final

import typer

from console.settings import ConsoleSettings
from deploy.cli.options import Config, Data, GrpcListen, HttpListen, Json, LogFormat, LogLevel, listening_address
from deploy.cli.output.printing import print_ready
from deploy.config.addresses import Address
from deploy.config.settings import ClientTls
from deploy.config.source import read_settings
from deploy.garbage import collection_paused
from deploy.serve.lifecycle import default_data, prepare_process
from deploy.serve.log_settings import log_serving

if TYPE_CHECKING:
    from deploy.serve.embedded import ServingDeployment

CALLS: Final = "demo-calls.sh"
"""Name of the file with calls of the HTTP API, in the data folder of a demonstration."""

_CONSOLE: Final = ConsoleSettings()


def command(
    demo: Annotated[bool, typer.Option("--demo", help="Load example workflows; print how to use them.")] = False,
    data: Data = None,
    http: HttpListen = None,
    grpc: GrpcListen = None,
    console: Annotated[
        str | None,
        typer.Option(
            "--console",
            metavar="HOST:PORT",
            callback=listening_address,
            help="Where the web console listens; off by default, but with --demo.",
        ),
    ] = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Serve everything, in one process. SIGTERM and SIGINT stop it gracefully."""
    given = {"data": data and str(data), "edge.http": http, "backend.grpc": grpc, "console.listen": console}
    given |= {"log_level": log_level, "log_format": log_format}
    settings = read_settings(os.environ, config=config, given=given)
    if demo and settings.console.listen is None:
        given["console.listen"] = str(_free_console_address())
        settings = read_settings(os.environ, config=config, given=given)
    prepare_process(settings, "serve")
    folder = settings.data or default_data(os.environ, demo=demo)

    def on_ready(ready: "ServingDeployment") -> None:
        announce(ready, settings.admin.backend_tls if demo else None, as_json=as_json)
        log_serving(base_address=ready.base_address, console=ready.console, grpc=str(ready.grpc), metrics=ready.metrics)

    with ExitStack() as stack:
        with collection_paused():
            open_sandbox = None
            if settings.runtime.engine == "local":
                from deploy.serve.early_sandbox import early_sandbox

                open_sandbox = stack.enter_context(early_sandbox(settings.runtime.sandbox))

            from deploy.serve.embedded import serve_embedded
        serve_embedded(settings, folder, on_ready, open_sandbox)


def announce(ready: "ServingDeployment", demo: ClientTls | None, *, as_json: bool) -> None:
    """Prints the deployment's addresses; with `demo`, loads the demonstration first over these TLS settings."""
    record: dict[str, str] = {
        "base_address": ready.base_address,
        "grpc": str(ready.grpc),
        "data": str(ready.data),
    }
    lines = [
        ready.base_address,
        f"gRPC for `workflow-api` commands: {ready.grpc}",
        f"Data: {ready.data}",
    ]
    if ready.console is not None:
        record["console"] = ready.console
        lines.insert(1, f"Console: {ready.console}")
    if demo is not None:
        fields, block = demonstrate(ready, demo)
        record |= fields
        lines += ["", *block]
    print_ready(*lines, record=record, metrics=ready.metrics, as_json=as_json)


def demonstrate(ready: "ServingDeployment", tls: ClientTls) -> tuple[dict[str, str], list[str]]:
    """Loads the examples, and writes calls of the HTTP API to a file.

    Returns created credentials for the JSON record, and lines for a person: a line to paste, the console, the file.
    """
    from deploy.demo import ADMINISTRATOR, Script, examples_folder, kept_credentials, prepare_demonstration

    examples, grpc = examples_folder(), str(ready.grpc)
    demonstration = prepare_demonstration(grpc, examples, tls)
    calls = ready.data.absolute() / CALLS
    credentials = demonstration.credentials or kept_credentials(calls, demonstration.key_ids)
    script = Script(ready.base_address, grpc, examples, demonstration.workflows, credentials)
    # The file may hold a key; the process's umask keeps it from other users.
    calls.write_text("\n".join([*script.lines(), ""]), encoding="utf-8")
    fields = {"calls": str(calls)}
    if demonstration.credentials is not None:
        issued = demonstration.credentials
        fields |= {"key": issued.key_value, "external_id": issued.external_id}
    if demonstration.password is not None:
        fields |= {"user": ADMINISTRATOR, "password": demonstration.password}
        sign_in = f"sign in as {ADMINISTRATOR} with the password {demonstration.password}, which is shown only now"
    else:
        reset = script.command(f"users reset-password {ADMINISTRATOR}")
        sign_in = f"sign in as {ADMINISTRATOR}; `{reset}` makes a password"
    block = [
        "Start a run from another shell:",
        f"  {script.first_line()}",
        f"Or open {ready.console} and {sign_in}.",
        f"The same by curl, with a key: {calls}",
    ]
    return fields, block


def _free_console_address() -> Address:
    """Returns the default address of consoles, with another port if that one is in use."""
    default = Address(_CONSOLE.host, _CONSOLE.port)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((default.host, default.port))
        except OSError:
            return Address(default.host, 0)
    return default
