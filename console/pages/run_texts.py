"""Whole texts of a run, of which its page shows the beginning."""

from console.http.downloads import whole
from console.pages.run import GONE, missing, read_event
from console.rendering import formatting
from console.run.inputs import read_run
from console.run.texts import texts_of
from console.visit import Download, PageResult, View, Visit
from contract.refusals import Refusal
from workflow_api.v1.previews_pb2 import GetStepPreviewRequest


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
    """Sends what a step returned, as much as services prepare for people."""
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


def _sent(content: str, name: str) -> Download:
    data = content.encode()
    return Download(whole(data), name, "text/plain", len(data))


def _missing(refusal: Refusal) -> View:
    if refusal.code not in GONE:
        raise refusal
    return missing(refusal.message)
