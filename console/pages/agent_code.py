"""Pages of an agent's code: its files, the text of one, and all of them as a zip."""

import asyncio
import io
import zipfile
from codecs import getincrementaldecoder
from typing import Final, NamedTuple
from urllib.parse import urlencode

from console.definitions.kinds import AGENT
from console.definitions.versions import ID, NO_VERSION, NOT_THERE, missing, version_of
from console.http.downloads import whole
from console.rendering import formatting
from console.rendering.excerpts import beginning
from console.visit import Download, PageResult, View, Visit
from contract.refusals import Refusal
from workflow_api.v1.definitions_pb2 import AgentCode, GetAgentCodeRequest

_SHOWN_CHARS: Final = 60_000
_SHOWN_BYTES: Final = 80_000
_NO_CODE: Final = NOT_THERE | {"invalid_request"}


class _Files(NamedTuple):
    """Names and sizes in bytes of an archive's files; the beginning of the chosen one's text, None for binary data."""

    sizes: list[tuple[str, int]]
    chosen: str
    text: str | None
    cut: bool


async def show(visit: Visit) -> PageResult:
    """Lists the files of a version's code, with the text of the one that the query names."""
    code = await _read(visit)
    if isinstance(code, View):
        return code
    files = await asyncio.to_thread(_files_of, code.archive, visit.query.get("file", ""))
    if files is None:
        return missing(AGENT, f"Version {code.version} has no file of that name.")
    here = AGENT.page_of(code.id)
    version = {"version": code.version}
    context = {
        "code": code,
        "here": here,
        "chosen": files.chosen,
        "files": [
            (name, f"{here}/code?{urlencode({**version, 'file': name})}", formatting.size(size))
            for name, size in files.sizes
        ],
        "text": files.text,
        "cut": files.cut,
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


def _files_of(content: bytes, wanted: str) -> _Files | None:
    """Returns the files of an archive, with the wanted one or the first; None where there is none."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        sizes = [(info.filename, info.file_size) for info in archive.infolist()]
        names = [name for name, _ in sizes]
        if not names or (wanted and wanted not in names):
            return None
        chosen = wanted or names[0]
        with archive.open(chosen) as file:
            # No more bytes than these can be shown, however few characters they are.
            data, more = file.read(_SHOWN_BYTES), bool(file.read(1))
    try:
        text = getincrementaldecoder("utf-8")().decode(data, final=not more)
    except UnicodeDecodeError:
        return _Files(sizes, chosen, None, cut=False)
    shown, cut = beginning(text, _SHOWN_CHARS, _SHOWN_BYTES)
    return _Files(sizes, chosen, shown, cut=cut or more)


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
