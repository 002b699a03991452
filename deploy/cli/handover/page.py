"""Content of the page for a partner: address, limits, snippets, refusals and webhooks of one key, as blocks.

No block has a credential: credentials are shown once, when they are issued, and the page has placeholders.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from deploy.cli.output.printing import Record


class Heading(NamedTuple):
    """A heading; level 1 is the title."""

    level: int
    text: str


class Paragraph(NamedTuple):
    """A paragraph of plain text."""

    text: str


class Table(NamedTuple):
    """A table with its heads; cells are plain text."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Snippet(NamedTuple):
    """Code in a language."""

    language: str
    code: str


Block: TypeAlias = Heading | Paragraph | Table | Snippet


class Handover(NamedTuple):
    """The facts of the page: the URL of the API, the key's record, names of workflows by id, records of webhooks.

    `parameters` are those that the first workflow requires, with values of their types.
    """

    url: str
    key: Record
    workflows: Mapping[str, str]
    parameters: Mapping[str, object]
    webhooks: Sequence[Record]


_SCOPE_MEANINGS: Final = {
    "workflows:read": "list workflows and their parameters",
    "runs:create": "start and cancel runs",
    "runs:read": "read runs, their events and results",
    "outputs:read": "list and download the files of runs",
    "runs:delete": "erase the data of ended runs",
}


def blocks_of(handover: Handover) -> Iterator[Block]:
    """Yields the page from top to bottom."""
    key = handover.key
    yield Heading(1, f"Access to the workflow API: {key['name']}")
    if key["description"]:
        yield Paragraph(key["description"])
    yield Table(("", ""), tuple(_facts(handover)))
    yield Heading(2, "Credentials")
    yield Paragraph(
        "Two values come to you separately, and are not on this page: the key and the external id. Keep them on a"
        " server, and put them into the environment in place of the dots:"
    )
    yield Snippet("bash", "\n".join(_environment(handover.url)))
    yield Heading(2, "What the key may do")
    yield Table(("Scope", "It allows to"), tuple((scope, _SCOPE_MEANINGS[scope]) for scope in key["scopes"]))
    if handover.workflows:
        yield Table(("Workflow", "Id"), tuple((name, id_) for id_, name in handover.workflows.items()))
    else:
        yield Paragraph("No workflow can be started with the key at present.")
    if key["workflow_access"]["mode"] == "all_active":
        yield Paragraph("Workflows that are activated later are included.")
    yield Heading(2, "First calls")
    yield from _snippets(handover)
    yield Heading(2, "Answers to expect")
    yield Paragraph("A refusal is JSON with error.code, error.message and error.request_id. Quote the request id.")
    yield Table(("Status", "Code", "When", "What to do"), tuple(_refusals(key)))
    yield Heading(2, "Webhooks")
    yield from _webhooks(handover.webhooks)


def _facts(handover: Handover) -> Iterator[tuple[str, str]]:
    key = handover.key
    yield "Address", f"{handover.url}/api/v1"
    yield "Reference", f"{handover.url}/docs, for programs {handover.url}/openapi.json"
    yield "Key id", key["key_id"]
    if key["state"] in {"revoked", "expired"}:
        yield "State", f"{key['state']}: the key does not work any more"
    yield "Valid until", _time(key["expires_at"])
    if key["state"] == "rotating":
        yield "Old secret valid until", _time(key["rotating_until"])
    yield "Requests", f"{key['rate_limit_rpm']:,} a minute, all routes together"
    yield "Runs", f"{key['daily_run_quota']:,} a UTC day, {key['max_concurrent_runs']:,} at one time"
    if key["daily_tokens"] is not None:
        yield "Tokens of models", f"{key['daily_tokens']:,} a UTC day"
    if key["daily_cost_microusd"] is not None:
        yield "Cost of models", f"{key['daily_cost_microusd'] / 1_000_000:,.2f} USD a UTC day"
    yield "Hours", _hours(key) or "any"
    yield "Source addresses", ", ".join(key["source_allow_list"]) or "any"


def _time(text: str) -> str:
    return f"{text[:10]} {text[11:16]} UTC"


def _hours(key: Record) -> str:
    window = key["allowed_hours"]
    return f"{window['start_hour']:02}:00 to {window['end_hour']:02}:00 UTC" if window else ""


def _environment(url: str) -> Iterator[str]:
    yield f"export WORKFLOW_API_URL='{url}'"
    yield "export WORKFLOW_API_KEY='ak_…' WORKFLOW_API_EXTERNAL_ID='ake_…'"


_CHECK: Final = """\
curl -sS "$WORKFLOW_API_URL/api/v1/me" \\
    -H "Authorization: Bearer $WORKFLOW_API_KEY" -H "X-Service-Key-External-Id: $WORKFLOW_API_EXTERNAL_ID\""""

_START_IN_CURL: Final = """\
curl -sS "$WORKFLOW_API_URL/api/v1/workflows/{workflow_id}/runs" \\
    -H "Authorization: Bearer $WORKFLOW_API_KEY" -H "X-Service-Key-External-Id: $WORKFLOW_API_EXTERNAL_ID" \\
    -H "Content-Type: application/json" -H "Idempotency-Key: order-1" \\
    -d '{{"input_text": "…", "parameters": {parameters}}}'"""

_START_IN_PYTHON: Final = """\
from workflow_api_client import Client

with Client.from_env() as client:
    run = client.runs.start(
        "{workflow_id}", input_text="…", parameters={parameters}, idempotency_key="order-1"
    )
    print(run.id)
"""

_START_IN_TYPESCRIPT: Final = """\
import {{ Client }} from "workflow-api-client";

const client = Client.fromEnv();
const run = await client.runs.start("{workflow_id}", {{
  inputText: "…",
  parameters: {parameters},
  idempotencyKey: "order-1",
}});
console.log(run.id);
"""

_READ_IN_PYTHON: Final = """\
    run.wait(timeout=600)
    print(run.result)
"""

_READ_IN_TYPESCRIPT: Final = """\
await run.wait({ timeoutSeconds: 600 });
console.log(run.result);
"""

_FETCH_IN_PYTHON: Final = """\
    run.outputs.download("made")
"""

_FETCH_IN_TYPESCRIPT: Final = """\
await run.outputs.download("made");
"""


def _snippets(handover: Handover) -> Iterator[Block]:
    scopes = handover.key["scopes"]
    yield Paragraph("Check the credentials. The answer has the limits of the key:")
    yield Snippet("bash", _CHECK)
    workflow_id = next(iter(handover.workflows), None)
    if "runs:create" not in scopes or workflow_id is None:
        return
    yield Paragraph(
        "Start a run. With an equal Idempotency-Key and body the start can be repeated without a second run."
        f" GET /workflows/{workflow_id} describes the parameters:"
    )
    as_json = json.dumps(handover.parameters, ensure_ascii=False)
    yield Snippet("bash", _START_IN_CURL.format(workflow_id=workflow_id, parameters=as_json.replace("'", "'\\''")))
    reads = "runs:read" in scopes
    fetches = reads and "outputs:read" in scopes
    does = "Start a run, wait for its result and fetch its files" if fetches else "Start a run"
    yield Paragraph(f"{does} in Python, with the client of the service (pip install workflow-api-client):")
    in_python = (_READ_IN_PYTHON if reads else "", _FETCH_IN_PYTHON if fetches else "")
    yield Snippet(
        "python",
        _START_IN_PYTHON.format(workflow_id=workflow_id, parameters=dict(handover.parameters)) + "".join(in_python),
    )
    yield Paragraph("In TypeScript, with its client for Node.js (npm install workflow-api-client):")
    in_typescript = (_READ_IN_TYPESCRIPT if reads else "", _FETCH_IN_TYPESCRIPT if fetches else "")
    yield Snippet(
        "typescript", _START_IN_TYPESCRIPT.format(workflow_id=workflow_id, parameters=as_json) + "".join(in_typescript)
    )


def _refusals(key: Record) -> Iterator[tuple[str, str, str, str]]:
    yield "400", "invalid_request, invalid_parameters", "A field does not fit.", "Correct what error.details names."
    ends = _time(key["expires_at"])
    yield "401", "unauthorized", f"A credential is wrong, or the key has expired ({ends}).", "Do not repeat; ask us."
    where = "The call comes from another address, or the" if key["source_allow_list"] else "The"
    yield "403", "forbidden", f"{where} key lacks the scope.", "Do not repeat."
    if hours := _hours(key):
        yield "403", "outside_time_window", f"It is not {hours}.", "Repeat within the hours."
    yield "404", "workflow_not_found, run_not_found", "It does not exist, or not for this key.", "Do not repeat."
    yield "409", "idempotency_conflict", "The Idempotency-Key belongs to another start.", "Take a new one."
    yield "429", "rate_limited", f"{key['rate_limit_rpm']:,} requests of a minute are used up.", "Wait for Retry-After."
    models = key["daily_tokens"] is not None or key["daily_cost_microusd"] is not None
    used = (
        f"{key['daily_run_quota']:,} runs of a day{', or its tokens or cost of models,' if models else ''} are used up."
    )
    yield "429", "quota_exceeded", used, "Wait for Retry-After, until 00:00 UTC."
    in_flight = f"{key['max_concurrent_runs']:,} runs are in flight."
    yield "429", "too_many_active_runs", in_flight, "Wait for one to end."
    away = "The service is away for a moment."
    yield "502, 503", "runtime_unreachable, deployment_updating", away, "Repeat, a start with its Idempotency-Key."


def _webhooks(webhooks: Sequence[Record]) -> Iterator[Block]:
    if not webhooks:
        yield Paragraph("None is set up. Name an https address, and the service tells it when a run ends or waits.")
        return
    yield Paragraph(
        "Messages follow Standard Webhooks (https://www.standardwebhooks.com). Verify each with the signing secret,"
        " which comes separately, answer within ten seconds with a status from 200 to 299, and ignore a webhook-id"
        " that you have seen."
    )
    rows = tuple((each["url"], each["state"], ", ".join(each["events"])) for each in webhooks)
    yield Table(("Address", "State", "Messages"), rows)
