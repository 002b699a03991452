"""`workflow-api keys handover`: the page that an administrator sends to a partner together with a key."""

import datetime as dt
import json
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import typer

from deploy.cli.handover.formats import as_markdown, as_pdf
from deploy.cli.handover.page import Handover, blocks_of
from deploy.cli.option_names import KEY_OPTIONS, option_names
from deploy.cli.options import DEFAULT_GRPC, Grpc, Json, KeyId
from deploy.cli.output.printing import Record, print_json
from deploy.cli.output.records import PAGE, items_of, record_of, with_nulls
from deploy.cli.run_outputs import replaced, writing
from deploy.cli.run_start import workflow_definition
from deploy.client.backend import BackendClient, connected
from workflow_api.v1 import keys_pb2, webhooks_pb2, workflows_pb2

URL_VARIABLE: Final = "WORKFLOW_API_URL"
_FORMATS: Final = (".md", ".pdf")


def _public_url(text: str) -> str:
    parts = urlsplit(text)
    if (
        parts.scheme not in {"http", "https"}
        or not parts.netloc
        or parts.query
        or parts.fragment
        or "@" in parts.netloc
    ):
        raise typer.BadParameter(f"{text!r} is no address such as https://flows.example.org")
    return text.rstrip("/").removesuffix("/api/v1")


def _page_file(file: Path | None) -> Path | None:
    if file is not None and file.suffix not in _FORMATS:
        raise typer.BadParameter(f"{str(file)!r} ends neither in .md nor in .pdf")
    return file


def handover(
    key_id: KeyId,
    url: Annotated[
        str,
        typer.Option(
            "--url", envvar=URL_VARIABLE, metavar="URL", callback=_public_url, help="Address at which partners call."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE.md|FILE.pdf", callback=_page_file, help="File to write; else prints Markdown."
        ),
    ] = None,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Write a page for the partner who gets a key: address, limits, snippets, refusals and webhooks, no credential."""
    with option_names(KEY_OPTIONS), connected(grpc) as backend:
        key = record_of(backend.call(backend.keys.GetKey, keys_pb2.GetKeyRequest(key_id=key_id)))
        hooks = backend.pages(
            backend.webhooks.ListWebhooks, webhooks_pb2.ListWebhooksRequest(key_id=key_id, page_size=PAGE)
        )
        webhooks = [with_nulls(item) for item in items_of(hooks)]
        workflows = _workflows(backend, key)
        parameters = _required(backend, next(iter(workflows))) if workflows else {}
    blocks = list(blocks_of(Handover(url, key, workflows, parameters, webhooks)))
    if out is not None:
        at = dt.datetime.now(dt.UTC).replace(microsecond=0)
        content = as_pdf(blocks, at) if out.suffix == ".pdf" else as_markdown(blocks).encode()
        with writing(), replaced(out) as file:
            file.write(content)
    if as_json:
        print_json({"key_id": key_id, "file": out and str(out), "markdown": as_markdown(blocks)})
    elif out is None:
        print(as_markdown(blocks), end="")
    else:
        print(f"{out} is written. Send the credentials separately.")


_EXAMPLES: Final = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}


def _required(backend: BackendClient, workflow_id: str) -> dict[str, object]:
    """Returns the parameters that a start needs, with values of their types; text as dots that are to be replaced."""
    definition = json.loads(workflow_definition(backend, workflow_id, None).definition)
    return {
        each["name"]: each["enum"][0] if each.get("enum") else _EXAMPLES.get(each["type"], "…")
        for each in definition.get("parameters") or ()
        if each.get("required")
    }


def _workflows(backend: BackendClient, key: Record) -> dict[str, str]:
    """Returns the names of the active workflows that a key may start, by id."""
    listing = backend.pages(backend.workflows.ListWorkflows, workflows_pb2.ListWorkflowsRequest(page_size=PAGE))
    access = key["workflow_access"]
    return {
        item["workflow_id"]: item["name"]
        for item in items_of(listing)
        if access["mode"] != "explicit" or item["workflow_id"] in access["workflow_ids"]
    }
