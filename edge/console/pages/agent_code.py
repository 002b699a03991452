"""Pages of an agent's code: its files, the text of one, and all of them as a zip."""

import io
import zipfile
from typing import Final
from urllib.parse import urlencode

from edge.console.definitions.kinds import AGENT
from edge.console.definitions.versions import ID, NO_VERSION, NOT_THERE, missing, version_of
from edge.console.http.downloads import whole
from edge.console.rendering import formatting
from edge.console.rendering.page_budget import PageBudget
from edge.console.visit import ONLOOKERS, Download, Page, PageResult, View, Visit
from edge.errors import Refusal
from workflow_api.v1.definitions_pb2 import AgentCode, GetAgentCodeRequest

_PATH: Final = f"{AGENT.path}/{{{ID}}}/code"
_SHOWN_CHARS: Final = 60_000
_SHOWN_BYTES: Final = 80_000
_NO_CODE: Final = NOT_THERE | {"invalid_request"}


async def show(visit: Visit) -> PageResult:
    """Lists the files of a version's code, with the text of the one that the query names."""
    code = await _read(visit)
    if isinstance(code, View):
        return code
    with zipfile.ZipFile(io.BytesIO(code.archive)) as archive:
        infos = archive.infolist()
        names = [info.filename for info in infos]
        chosen = visit.query.get("file", "") or names[0]
        if chosen not in names:
            return missing(AGENT, f"Version {code.version} has no file of that name.")
        try:
            text = archive.read(chosen).decode()
        except UnicodeDecodeError:
            text = None
    shown, cut = PageBudget(_SHOWN_BYTES).begin(text or "", _SHOWN_CHARS)
    here = AGENT.page_of(code.id)
    version = {"version": code.version}
    context = {
        "code": code,
        "here": here,
        "chosen": chosen,
        "files": [
            (name, f"{here}/code?{urlencode({**version, 'file': name})}", formatting.size(info.file_size))
            for name, info in zip(names, infos, strict=True)
        ],
        "text": None if text is None else shown,
        "cut": cut,
        "download": f"{here}/code/download?{urlencode(version)}",
    }
    return View("agents/code.html", context)


async def download(visit: Visit) -> PageResult:
    """Sends all files of a version's code as a zip."""
    code = await _read(visit)
    if isinstance(code, View):
        return code
    file_name = f"{code.name}-{code.version}.zip"
    return Download(whole(code.archive), file_name, "application/zip", len(code.archive))


async def _read(visit: Visit) -> AgentCode | View:
    asked = visit.query.get("version", "")
    version = version_of(asked)
    if asked and version is None:
        return missing(AGENT, NO_VERSION)
    request = GetAgentCodeRequest(agent=visit.path[ID], version=version)
    try:
        code: AgentCode = await visit.services.call("DefinitionsService/GetAgentCode", request)
    except Refusal as refusal:
        if refusal.code not in _NO_CODE:
            raise
        return missing(AGENT, refusal.message)
    return code


PAGES: Final[tuple[Page, ...]] = (
    Page("GET", _PATH, ONLOOKERS, show),
    Page("GET", f"{_PATH}/download", ONLOOKERS, download),
)
