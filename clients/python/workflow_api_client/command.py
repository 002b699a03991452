"""The command `wfa`: starts runs, watches, lists, cancels and erases them, and downloads their outputs."""

import argparse
import contextlib
import itertools
import json
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, is_dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, get_args

from workflow_api_client.client import Client
from workflow_api_client.failures import TimedOutError, WorkflowApiError
from workflow_api_client.generated import records
from workflow_api_client.run import Run
from workflow_api_client.version import __version__

FAILED: Final = 1
USAGE: Final = 2
REFUSED: Final = 3
TIMED_OUT: Final = 4

_DESCRIPTION: Final = """\
Starts workflows, watches, lists, cancels and erases their runs, and downloads their outputs.

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

    runs = commands.add_parser("list", help="list the key's runs, newest first")
    runs.add_argument("--status", help=f"of {', '.join(get_args(records.RunStatus))}; several with commas")
    runs.add_argument("--workflow", help="name or id")
    runs.add_argument("--reference", help="the reference that they were started with")
    runs.add_argument("--limit", type=int, default=20, help="at most so many (20)")
    runs.set_defaults(function=_list)

    state = commands.add_parser("status", help="print where a run stands, and its result")
    state.add_argument("run_id")
    state.set_defaults(function=_status)

    for name, function, text in (
        ("cancel", _cancel, "ask for the end of a run"),
        ("erase", _erase, "erase what an ended run was given and made, for good"),
    ):
        ending = commands.add_parser(name, help=text)
        ending.add_argument("run_id")
        ending.add_argument("--reason", help="recorded with it")
        ending.set_defaults(function=function)

    starting = commands.add_parser("start", help="start a run, and print its id")
    starting.add_argument("workflow", help="name or id")
    starting.add_argument("-p", "--param", action="append", default=[], metavar="NAME=VALUE", help="may be repeated")
    starting.add_argument(
        "--input-text", metavar="TEXT|@FILE", help="text for the run, or the file that holds it, @- for standard input"
    )
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
    parser.add_argument("--version", action="version", version=f"wfa {__version__}")
    for command in commands.choices.values():
        command.add_argument("--json", action="store_true", help="print JSON, one object a line")
    return parser


def _workflows(client: Client, given: argparse.Namespace) -> int:
    for workflow in client.workflows.list(given.prefix):
        if given.json:
            _print_json(workflow)
            continue
        ready = "" if workflow.readiness.ready else "  (not ready)"
        _print(f"{workflow.workflow_id}  {workflow.name}{ready}")
    return 0


def _start(client: Client, given: argparse.Namespace) -> int:
    text = None if given.input_text is None else _text_of(given.input_text)
    run = client.runs.start(
        given.workflow,
        parameters=_parameters(client, given.workflow, given.param) if given.param else None,
        input_text=text,
        labels=dict(map(_pair, given.label)) or None,
        client_reference=given.reference,
        idempotency_key=given.idempotency_key,
    )
    follows = given.watch or given.download is not None
    if not given.json:
        _print(run.id)
    elif not follows:
        _print_json(run.record)
    sys.stdout.flush()
    if given.watch:
        _follow(run, given)
    if given.download is not None:
        run.wait()
        run.outputs.download(given.download, progress=sys.stderr.isatty())
    return _end_of(run, given) if follows else 0


def _list(client: Client, given: argparse.Namespace) -> int:
    if given.limit < 1:
        raise ValueError(f"--limit must be at least 1, not {given.limit}.")
    workflow_id = None if given.workflow is None else client.workflows.get(given.workflow).workflow_id
    listing = client.runs.list(status=given.status, workflow_id=workflow_id, client_reference=given.reference)
    for run in itertools.islice(listing, given.limit):
        if given.json:
            _print_json(run)
        else:
            _print(f"{run.run_id}  {run.created_at:%Y-%m-%d %H:%M:%S}  {run.status}  {run.workflow_name}")
    return 0


def _status(client: Client, given: argparse.Namespace) -> int:
    run = client.runs.get(given.run_id)
    if given.json:
        _print_json(run.record)
        return 0
    _print(f"{run.id}  {run.status}  {run.record.workflow_name}")
    for approval in run.approvals() if run.status == "waiting_for_approval" else ():
        _print(f"waits for a person to decide: {approval.title}")
    if run.error is not None:
        _print(f"{run.error.code}: {run.error.message}")
    if run.status == "completed" and run.record.data_purged_at is None:
        _print(json.dumps(run.fetch_result(), ensure_ascii=False))
    return 0


def _cancel(client: Client, given: argparse.Namespace) -> int:
    answer = client.runs.get(given.run_id).cancel(given.reason)
    if given.json:
        _print_json(answer)
    else:
        _print(f"{answer.run_id}  {answer.status}")
    return 0


def _erase(client: Client, given: argparse.Namespace) -> int:
    answer = client.runs.get(given.run_id).erase(given.reason)
    if given.json:
        _print_json(answer)
    else:
        _print(f"{answer.run_id}  erased {answer.data_purged_at:%Y-%m-%d %H:%M:%S}")
    return 0


def _watch(client: Client, given: argparse.Namespace) -> int:
    run = client.runs.get(given.run_id)
    _follow(run, given)
    return _end_of(run, given)


def _download(client: Client, given: argparse.Namespace) -> int:
    run = client.runs.get(given.run_id).wait(given.timeout)
    if given.zip:
        run.download_zip(given.target, progress=sys.stderr.isatty())
        files = [given.target]
    else:
        files = run.outputs.download(given.target, progress=sys.stderr.isatty())
    for file in files:
        if given.json:
            _print_json({"file": str(file)})
        else:
            _print(str(file))
    return _end_of(run, given)


def _follow(run: Run, given: argparse.Namespace) -> None:
    for event in run.events(live=True):
        if given.json:
            _print_json(event)
        else:
            _print(_line(event))
        sys.stdout.flush()
    run.wait()


def _line(event: records.AnyEvent) -> str:
    data: dict[str, Any] = dict(event.data)
    message = data.pop("message", None)
    details = " ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in data.items())
    parts = [f"{event.at:%H:%M:%S}", event.type, event.step, message, details]
    return "  ".join(str(part) for part in parts if part)


def _end_of(run: Run, given: argparse.Namespace) -> int:
    if given.json:
        _print_json(run.record)
    sys.stderr.write(_printable(f"{run.id} is {run.status}") + "\n")
    if run.error is not None:
        _complain(f"{run.error.code}: {run.error.message}")
    return 0 if run.status == "completed" else FAILED


def _parameters(client: Client, workflow: str, texts: Sequence[str]) -> dict[str, Any]:
    """Returns the values of parameters, read as the types that the workflow declares."""
    types = {each.name: each.type for each in client.workflows.parameters(workflow)}
    values: dict[str, Any] = {}
    for name, text in map(_pair, texts):
        # Undeclared parameters are left to the service, whose refusal names the declared ones.
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


def _text_of(value: str) -> str:
    """Returns a value, the file that it names after `@`, or standard input for `@-`."""
    if value == "@-":
        return sys.stdin.read()
    return Path(value[1:]).read_text(encoding="utf-8") if value.startswith("@") else value


def _print_json(value: Any) -> None:
    record = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
    # In ASCII, without control characters for a terminal.
    sys.stdout.write(json.dumps(record, default=_json_of) + "\n")


def _json_of(value: Any) -> Any:
    # Times as the API writes them.
    return value.isoformat(timespec="milliseconds") if isinstance(value, datetime) else dict(value)


def _print(text: str) -> None:
    sys.stdout.write(_printable(text) + "\n")


def _complain(what: object) -> None:
    sys.stderr.write(f"wfa: {_printable(str(what))}\n")


def _printable(text: str) -> str:
    """Returns text without control characters for a terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


if __name__ == "__main__":
    sys.exit(main())
