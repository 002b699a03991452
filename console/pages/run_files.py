"""Files of a run: previews and downloads of outputs, and whole texts that the run's page shows cut."""

from typing import Any, Final
from urllib.parse import quote

from console.addresses import run_address
from console.http.downloads import MESSAGE_SECONDS, open_download, whole
from console.pages.run import GONE, missing, read_event
from console.rendering import formatting
from console.rendering.text import beginning, sanitised
from console.run.previews import table_excerpt, tree_of
from console.run.texts import read_run, texts_of
from console.visit import FileDownload, PageResult, View, Visit
from contract.refusals import Refusal
from workflow_api.v1.outputs_pb2 import GetOutputContentRequest, GetOutputsZipRequest
from workflow_api.v1.previews_pb2 import GetOutputPreviewRequest, GetStepPreviewRequest, OutputPreview

IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"})
"""Image types shown in pages; without SVG, because it may hold script."""

_REFUSED: Final = frozenset({"run_not_found", "output_not_found", "run_not_terminal", "redaction_pending"})
_TOO_LARGE: Final = frozenset({"use_bundle", "bundle_too_large"})
_MOST_TEXT_CHARS: Final = 60_000
_MOST_TEXT_BYTES: Final = 80_000
_LONGEST_NUMBER: Final = 4


async def show(visit: Visit) -> PageResult:
    """Shows the beginning of an output."""
    run_id, output_id = visit.path["run_id"], visit.path["output_id"]
    request = GetOutputPreviewRequest(run_id=run_id, output_id=output_id)
    try:
        preview: OutputPreview = await visit.services.call("PreviewsService/GetOutputPreview", request)
    except Refusal as refusal:
        if refusal.code not in _REFUSED:
            raise
        return missing(refusal.message)
    file = preview.file
    text, table = file.text.text, table_excerpt(file.table, _number(visit.query.get("columns", "")))
    shown, cut = beginning(text, _MOST_TEXT_CHARS, _MOST_TEXT_BYTES)
    tree = None if preview.HasField("html") or file.text.cut else tree_of(text)
    return View(
        "runs/output.html",
        {
            "here": run_address(run_id),
            "address": f"{run_address(run_id)}/outputs/{quote(output_id, safe='')}",
            "file": file,
            "size": formatting.size(file.size_bytes),
            "image": file.media_type in IMAGES,
            "html": sanitised(preview.html, below=1) if preview.HasField("html") else None,
            "tree": tree,
            "text": shown,
            "text_cut": file.text.cut or cut,
            "table": table,
            "table_cut": file.table.cut or table.narrowed,
        },
    )


async def download(visit: Visit) -> PageResult:
    """Sends an output."""
    return await _content(visit)


async def show_image(visit: Visit) -> PageResult:
    """Sends an output that is an image, to be shown in a page."""
    return await _content(visit, image=True)


async def download_all(visit: Visit) -> PageResult:
    """Sends all outputs as one zip."""
    request = GetOutputsZipRequest(run_id=visit.path["run_id"])
    return await _opened(visit, "OutputsService/GetOutputsZip", request)


async def text(visit: Visit) -> PageResult:
    """Sends one text of a run."""
    run_id, name = visit.path["run_id"], visit.path["name"]
    try:
        run, _ = await read_run(visit.services, run_id)
    except Refusal as refusal:
        return _missing(refusal)
    found = next((each.text for each in texts_of(run) if each.name == name), "")
    return _sent(found, f"{run_id}-{name}.txt") if found else missing("The run has no such text.")


async def value(visit: Visit) -> PageResult:
    """Sends the value of a step, as far as the services prepare it for people."""
    run_id, step = visit.path["run_id"], visit.path["step"]
    try:
        request = GetStepPreviewRequest(run_id=run_id, step=step)
        preview = await visit.services.call("PreviewsService/GetStepPreview", request)
    except Refusal as refusal:
        return _missing(refusal)
    if not preview.HasField("value"):
        return missing(preview.problem or "There is no value to show.")
    return _sent(formatting.json_lines(preview.value.text), f"{run_id}-{step}.json")


async def event(visit: Visit) -> PageResult:
    """Sends the data of one event."""
    found = await read_event(visit)
    if isinstance(found, View):
        return found
    return _sent(formatting.json_lines(found.data), f"{visit.path['run_id']}-event-{found.seq}.json")


async def _content(visit: Visit, *, image: bool = False) -> PageResult:
    request = GetOutputContentRequest(run_id=visit.path["run_id"], output_id=visit.path["output_id"])
    return await _opened(visit, "OutputsService/GetOutputContent", request, image=image)


async def _opened(visit: Visit, rpc: str, request: Any, *, image: bool = False) -> PageResult:
    try:
        found = await open_download(visit.services.stream(rpc, request, MESSAGE_SECONDS), inline=image)
    except Refusal as refusal:
        if refusal.code not in _REFUSED | _TOO_LARGE:
            raise
        return missing(refusal.message)
    if image and found.media_type not in IMAGES:
        await found.parts.aclose()
        return missing("This output is no image that can be shown.")
    return found


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= _LONGEST_NUMBER else 1


def _sent(content: str, name: str) -> FileDownload:
    data = content.encode()
    return FileDownload(whole(data), name, "text/plain", len(data))


def _missing(refusal: Refusal) -> View:
    if refusal.code not in GONE:
        raise refusal
    return missing(refusal.message)
