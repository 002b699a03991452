"""Pages of agents: the list, an agent at a version, and the files of its code."""

import asyncio
import io
import zipfile
from codecs import getincrementaldecoder
from typing import Final, NamedTuple
from urllib.parse import urlencode

from console.definitions.kinds import AGENT
from console.definitions.versions import (
    ID,
    NO_VERSION,
    NOT_THERE,
    missing,
    read_manifest,
    read_versions,
    shown_variables,
    version_of,
)
from console.http.downloads import whole
from console.paging import all_items
from console.rendering import formatting
from console.rendering.text import beginning
from console.visit import ADMINISTRATORS, FileDownload, PageResult, View, Visit
from contract.refusals import Refusal
from workflow_api.v1.definitions_pb2 import AgentCode, GetAgentCodeRequest, ListDefinitionUsesRequest
from workflow_api.v1.workflows_pb2 import RESOURCE_KIND_AGENT, GetResourceRequest, ListResourcesRequest

_PAGE: Final = 1000
_VERSIONS: Final = 5
_TYPES: Final = {"python": "Python code", "llm": "language model"}

_SHOWN_CHARS: Final = 60_000
_SHOWN_BYTES: Final = 80_000
_NO_CODE: Final = NOT_THERE | {"invalid_request"}


async def show_list(visit: Visit) -> PageResult:
    """Lists every agent."""
    request = ListResourcesRequest(kind=RESOURCE_KIND_AGENT, page_size=_PAGE)
    agents = await all_items(visit.services, "WorkflowsService/ListResources", request)
    rows = [(agent, _TYPES.get(agent.type, agent.type)) for agent in agents]
    return View("agents/list.html", {"rows": rows, "administrator": visit.user.role in ADMINISTRATORS})


async def show_one(visit: Visit) -> PageResult:
    """Shows a version of an agent, by default the newest."""
    asked = visit.query.get("version", "")
    version = version_of(asked)
    if asked and version is None:
        return missing(AGENT, NO_VERSION)
    try:
        manifest = await read_manifest(visit.services, AGENT, visit.path[ID], version)
        resource, found, uses = await asyncio.gather(
            visit.services.call(
                "WorkflowsService/GetResource",
                GetResourceRequest(kind=RESOURCE_KIND_AGENT, resource=manifest.id, version=manifest.version),
            ),
            read_versions(visit.services, AGENT, manifest.id, size=_VERSIONS),
            all_items(
                visit.services,
                "DefinitionsService/ListDefinitionUses",
                ListDefinitionUsesRequest(kind=AGENT.kind, definition=manifest.id),
            ),
        )
    except Refusal as refusal:
        if refusal.code not in NOT_THERE:
            raise
        return missing(AGENT, refusal.message)
    return View(
        "agents/one.html",
        {
            "agent": resource.resource,
            "type": _TYPES.get(resource.resource.type, resource.resource.type),
            "here": AGENT.page_of(manifest.id),
            "manifest": manifest,
            "variables": shown_variables(resource.variables),
            "found": found,
            "uses": uses,
            "deleted_at": resource.deleted_at if resource.HasField("deleted_at") else None,
            "administrator": visit.user.role in ADMINISTRATORS,
        },
    )


class _ArchiveFiles(NamedTuple):
    """Files of an archive: names and sizes in bytes, and the beginning of the chosen file, None for binary data."""

    sizes: list[tuple[str, int]]
    chosen: str
    text: str | None
    cut: bool


async def show_code(visit: Visit) -> PageResult:
    """Lists the files of a version's code, with the text of the file that the query names."""
    code = await _read_code(visit)
    if isinstance(code, View):
        return code
    files = await asyncio.to_thread(_files_of, code.archive, visit.query.get("file", ""))
    if files is None:
        return missing(AGENT, f"Version {code.version} has no file of that name.")
    address = AGENT.page_of(code.id)
    version = {"version": code.version}
    context = {
        "code": code,
        "here": address,
        "chosen": files.chosen,
        "files": [
            (name, f"{address}/code?{urlencode({**version, 'file': name})}", formatting.size(size))
            for name, size in files.sizes
        ],
        "text": files.text,
        "cut": files.cut,
        "download": f"{address}/code/download_code?{urlencode(version)}",
    }
    return View("agents/code.html", context)


async def download_code(visit: Visit) -> PageResult:
    """Sends all files of a version's code as a zip."""
    code = await _read_code(visit)
    if isinstance(code, View):
        return code
    file_name = f"{code.name}-{code.version}.zip"
    return FileDownload(whole(code.archive), file_name, "application/zip", len(code.archive))


def _files_of(content: bytes, wanted: str) -> _ArchiveFiles | None:
    """Returns the files of an archive with the text of the wanted or first file; None where no file has the name."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        sizes = [(info.filename, info.file_size) for info in archive.infolist()]
        names = [name for name, _ in sizes]
        if not names or (wanted and wanted not in names):
            return None
        chosen = wanted or names[0]
        with archive.open(chosen) as file:
            # Bound on the bytes read, whatever characters they encode.
            data, more = file.read(_SHOWN_BYTES), bool(file.read(1))
    try:
        text = getincrementaldecoder("utf-8")().decode(data, final=not more)
    except UnicodeDecodeError:
        return _ArchiveFiles(sizes, chosen, None, cut=False)
    shown, cut = beginning(text, _SHOWN_CHARS, _SHOWN_BYTES)
    return _ArchiveFiles(sizes, chosen, shown, cut=cut or more)


async def _read_code(visit: Visit) -> AgentCode | View:
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
