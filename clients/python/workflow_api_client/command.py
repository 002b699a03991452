"""The command `wfa`: starts a run, watches it, and downloads what it made."""

import argparse
import contextlib
import json
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from workflow_api_client.client import Client
from workflow_api_client.failures import TimedOutError, WorkflowApiError
from workflow_api_client.generated import records
from workflow_api_client.run import Run

FAILED: Final = 1
USAGE: Final = 2
REFUSED: Final = 3
TIMED_OUT: Final = 4

_DESCRIPTION: Final = """\
Starts workflows, watches their runs, and downloads what they made.

WORKFLOW_API_URL, WORKFLOW_API_KEY and WORKFLOW_API_EXTERNAL_ID of the environment name the service and the key.
Ends with 0, or 1 if the run did not complete, 2 for wrong options, 3 for a refusal, 4 if the time given has passed."""
_TEXT_TYPES: Final = frozenset({"string", "date", "s3_prefix"})


def main(arguments: Sequence[str] | None = None, new_client: Callable[[], Client] = Client.from_env) -> int:
    """Runs the command; returns its exit status."""
    given = _parser().parse_args(arguments)
    try:
        with _retries_shown(), new_client() as client:
            status: int = given.function(client, given)
            return status
    except TimedOutError as error:
        _complain(error)
        return TIMED_OUT
    except (WorkflowApiError, OSError) as error:
        _complain(error)
        return REFUSED
    except ValueError as error:
        _complain(error)
        return USAGE
    except KeyboardInterrupt:
        return 130


@contextlib.contextmanager
def _retries_shown() -> Iterator[None]:
    """Shows retries and their reasons on standard error."""
    log, handler = logging.getLogger("workflow_api_client"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("wfa: %(message)s"))
    handler.setLevel(logging.INFO)
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="wfa", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    listing = commands.add_parser("workflows", help="list the workflows within the key's reach")
    listing.add_argument("prefix", nargs="?", help="what their names begin with")
    listing.set_defaults(function=_workflows)

    starting = commands.add_parser("start", help="start a run, and print its id")
    starting.add_argument("workflow", help="name or id")
    starting.add_argument("-p", "--param", action="append", default=[], metavar="NAME=VALUE", help="may be repeated")
    starting.add_argument("--input-text", metavar="TEXT|@FILE", help="text for the run, or the file that holds it")
    starting.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="may be repeated")
    starting.add_argument("--reference", help="your own reference, by which runs can be listed")
    starting.add_argument("--idempotency-key", help="starts with the same key within 24 hours are one")
    starting.add_argument("--watch", action="store_true", help="watch the run to its end")
    starting.add_argument("--download", type=Path, metavar="FOLDER", help="wait for the end, then download the outputs")
    starting.set_defaults(function=_start, timeout=None)

    watching = commands.add_parser("watch", help="print the events of a run to its end")
    watching.add_argument("run_id")
    watching.set_defaults(function=_watch)

    fetching = commands.add_parser("download", help="wait for the end of a run, then download its outputs")
    fetching.add_argument("run_id")
    fetching.add_argument("target", type=Path, help="the folder, or with --zip the file")
    fetching.add_argument("--zip", action="store_true", help="as one zip")
    fetching.add_argument("--timeout", type=float, metavar="SECONDS", help="how long to wait for the end")
    fetching.set_defaults(function=_download)
    return parser


def _workflows(client: Client, given: argparse.Namespace) -> int:
    for workflow in client.workflows.list(given.prefix):
        ready = "" if workflow.readiness.ready else "  (not ready)"
        _print(f"{workflow.workflow_id}  {workflow.name}{ready}")
    return 0


def _start(client: Client, given: argparse.Namespace) -> int:
    text = given.input_text
    if text is not None and text.startswith("@"):
        text = Path(text[1:]).read_text(encoding="utf-8")
    run = client.runs.start(
        given.workflow,
        parameters=_parameters(client, given.workflow, given.param) if given.param else None,
        input_text=text,
        labels=dict(map(_pair, given.label)) or None,
        client_reference=given.reference,
        idempotency_key=given.idempotency_key,
    )
    _print(run.id)
    sys.stdout.flush()
    if given.watch:
        _follow(run)
    if given.download is not None:
        run.wait()
        run.outputs.download(given.download, progress=sys.stderr.isatty())
    return _end_of(run) if given.watch or given.download is not None else 0


def _watch(client: Client, given: argparse.Namespace) -> int:
    run = client.runs.get(given.run_id)
    _follow(run)
    return _end_of(run)


def _download(client: Client, given: argparse.Namespace) -> int:
    run = client.runs.get(given.run_id).wait(given.timeout)
    if given.zip:
        run.download_zip(given.target, progress=sys.stderr.isatty())
        _print(str(given.target))
    else:
        for file in run.outputs.download(given.target, progress=sys.stderr.isatty()):
            _print(str(file))
    return _end_of(run)


def _follow(run: Run) -> None:
    for event in run.events(live=True):
        _print(_line(event))
        sys.stdout.flush()
    run.wait()


def _line(event: records.AnyEvent) -> str:
    data: dict[str, Any] = dict(event.data)
    message = data.pop("message", None)
    details = " ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in data.items())
    parts = [f"{event.at:%H:%M:%S}", event.type, event.step, message, details]
    return "  ".join(str(part) for part in parts if part)


def _end_of(run: Run) -> int:
    sys.stderr.write(_printable(f"{run.id} is {run.status}") + "\n")
    if run.error is not None:
        _complain(f"{run.error.code}: {run.error.message}")
    return 0 if run.status == "completed" else FAILED


def _parameters(client: Client, workflow: str, texts: Sequence[str]) -> dict[str, Any]:
    """Returns the values of parameters, read as the types that the workflow declares."""
    types = {each.name: each.type for each in client.workflows.parameters(workflow)}
    values: dict[str, Any] = {}
    for name, text in map(_pair, texts):
        # What is not declared is left to the service, which names what is.
        if types.get(name, "string") in _TEXT_TYPES:
            values[name] = text
            continue
        try:
            values[name] = json.loads(text)
        except ValueError:
            raise ValueError(
                f"The parameter {name} must be JSON of type {types[name]}, which {text!r} is not."
            ) from None
    return values


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r} must be of the form NAME=VALUE.")
    return name, value


def _print(text: str) -> None:
    sys.stdout.write(_printable(text) + "\n")


def _complain(what: object) -> None:
    sys.stderr.write(f"wfa: {_printable(str(what))}\n")


def _printable(text: str) -> str:
    """Returns text without what could steer a terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


if __name__ == "__main__":
    sys.exit(main())
