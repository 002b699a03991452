"""`workflow-api serve`: everything in one process."""

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deploy.commands.options import Config, Data, GrpcListen, HttpListen, Json
from deploy.lifecycle import default_data, prepare_process
from deploy.printing import print_json_line
from deploy.settings_source import read_settings

if TYPE_CHECKING:
    from deploy.demo.setup import Demonstration
    from deploy.embedded import Ready


def command(
    demo: Annotated[bool, typer.Option("--demo", help="Load example workflows and print calls to paste.")] = False,
    data: Data = None,
    http: HttpListen = None,
    grpc: GrpcListen = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Serve everything in one process; nothing else to install. SIGTERM and SIGINT end it in an orderly way."""
    given = {"data": data and str(data), "edge.http": http, "backend.grpc": grpc}
    settings = read_settings(os.environ, config=config, given=given)
    prepare_process(settings)
    folder = settings.data or default_data(os.environ, demo=demo)

    from deploy.embedded import serve_embedded

    def on_ready(ready: "Ready") -> None:
        announce(ready, demo=demo, as_json=as_json)

    serve_embedded(settings, folder, on_ready)


def announce(ready: "Ready", *, demo: bool, as_json: bool) -> None:
    """Say where the deployment is served; load the demonstration first where there is to be one."""
    from deploy.demo.examples import examples_folder
    from deploy.demo.setup import prepare_demonstration

    demonstration = prepare_demonstration(str(ready.grpc), examples_folder()) if demo else None
    if as_json:
        print_json_line(_record(ready, demonstration))
        return
    print(ready.base_address)
    print(f"gRPC for `workflow-api` commands: {ready.grpc}")
    print(f"Data: {ready.data}", flush=True)
    if demonstration:
        from deploy.demo.paste import Script

        script = Script(ready.base_address, str(ready.grpc), examples_folder(), demonstration)
        print("\nPaste any of this into another shell, from the top:\n")
        print("\n".join(script.lines()), flush=True)


def _record(ready: "Ready", demonstration: "Demonstration | None") -> dict[str, Any]:
    record: dict[str, Any] = {
        "base_address": ready.base_address,
        "grpc": str(ready.grpc),
        "data": str(ready.data),
    }
    if demonstration:
        record["workflows"] = dict(demonstration.workflows)
        if demonstration.credentials:
            credentials = demonstration.credentials
            record |= {"key": credentials.key_value, "external_id": credentials.external_id}
    return record
