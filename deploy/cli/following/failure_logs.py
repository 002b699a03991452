"""The log of a step that fails, read while its run is followed."""

from deploy.cli.following.run_progress import RunProgress
from deploy.cli.output.printing import Record
from deploy.client.backend import Backend
from deploy.failures import CommandError
from workflow_api.v1 import logs_pb2

FAILED = "step.failed"
_MOST_CHARACTERS = 20_000


def log_lines(backend: Backend, run_id: str, event: Record) -> list[str]:
    """Returns the end of the log of the attempt that an event says has failed; nothing where it cannot be read."""
    request = logs_pb2.GetRunLogRequest(
        run_id=run_id, step=event["step"], attempt=event["data"].value()["attempt"], tail_chars=_MOST_CHARACTERS
    )
    try:
        log = backend.call(backend.logs.GetRunLog, request)
    except CommandError:
        # Whoever may start runs need not be allowed to read what they print.
        return []
    text = log.log.problem or log.text.rstrip("\n")
    return (["…"] if log.cut else []) + (text.split("\n") if text else [])


def show_log(backend: Backend, run_id: str, event: Record, progress: RunProgress) -> None:
    """Shows the end of the log of the attempt that an event says has failed."""
    progress.write("\n".join(f"{event['step']} | {line}" for line in log_lines(backend, run_id, event)))
