"""`workflow-api backend`: the gRPC services and the runtime alone."""

import asyncio
import os

from deploy.commands.options import Config, Data, GrpcListen, Json
from deploy.lifecycle import default_data, prepare_process, run_until_stopped
from deploy.metrics import served_metrics
from deploy.printing import print_ready
from deploy.settings_source import read_settings


def command(data: Data = None, grpc: GrpcListen = None, config: Config = None, as_json: Json = False) -> None:
    """Serve the gRPC services and the runtime alone. SIGTERM and SIGINT end it in an orderly way."""
    given = {"data": data and str(data), "backend.grpc": grpc}
    settings = read_settings(os.environ, config=config, given=given)
    prepare_process(settings)
    folder = settings.data or default_data(os.environ, demo=False)

    from deploy.backend_part import served_backend

    async def serve(stop: asyncio.Event) -> None:
        async with served_backend(settings, folder, metrics) as (_, address):
            record = {"grpc": str(address), "data": str(folder)}
            print_ready(str(address), f"Data: {folder}", record=record, metrics=metrics.url, as_json=as_json)
            await stop.wait()

    with served_metrics(settings, "backend") as metrics:
        run_until_stopped(serve)
