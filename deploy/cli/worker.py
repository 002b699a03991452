"""`workflow-api worker`: executes runs that backends hand over."""

import asyncio
import os

from deploy.cli.options import Config, Data, Json, LogFormat, LogLevel
from deploy.cli.output.printing import print_ready
from deploy.config.source import read_settings
from deploy.failures import CommandError
from deploy.serve.lifecycle import default_data, prepare_process, run_until_stopped
from deploy.serve.metrics import serving_metrics
from deploy.serve.process_log import log_serving
from deploy.serve.traces import recording_traces


def command(
    data: Data = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Execute runs from the queue of the backends. SIGTERM and SIGINT stop it after its steps, or after the grace."""
    given = {"data": data and str(data), "log_level": log_level, "log_format": log_format}
    settings = read_settings(os.environ, config=config, given=given)
    if settings.runtime.engine != "dbos":
        raise CommandError(
            "Workers need the engine dbos: set runtime.engine, here and for the backends.", code="cannot_start"
        )
    prepare_process(settings, "worker")
    folder = settings.data or default_data(os.environ, demo=False)

    from deploy.serve.worker import running_worker

    async def work(stop: asyncio.Event) -> None:
        async with running_worker(settings, folder, metrics):
            print_ready(f"Ready. Data: {folder}", record={"data": str(folder)}, metrics=metrics.url, as_json=as_json)
            log_serving(metrics=metrics.url)
            await stop.wait()

    with serving_metrics(settings, "worker") as metrics, recording_traces(settings, "worker", metrics):
        run_until_stopped(work)
