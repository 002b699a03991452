"""`workflow-api export`: writes all definitions of a deployment as files that `apply` reads."""

import io
import re
import shlex
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Final, NamedTuple

import typer

from deploy.cli.option_names import NAMED_OPTIONS, option_names
from deploy.cli.options import DEFAULT_GRPC, Grpc, Json
from deploy.cli.output.printing import print_json, print_line
from deploy.cli.output.records import PAGE, items_of, record_of
from deploy.cli.run_outputs import replaced, safe_path, writing
from deploy.client.backend import BackendClient, connected
from deploy.failures import CommandError
from workflow_api.v1 import definitions_pb2, workflows_pb2

_FOLDERS: Final = {
    "Environment": ("environments", workflows_pb2.RESOURCE_KIND_ENVIRONMENT),
    "Agent": ("agents", workflows_pb2.RESOURCE_KIND_AGENT),
    "Connector": ("connectors", workflows_pb2.RESOURCE_KIND_CONNECTOR),
    "KnowledgeGraph": ("graphs", workflows_pb2.RESOURCE_KIND_KNOWLEDGE_GRAPH),
}
"""The folder of each kind of resource, in the order in which the kinds are written."""

_WORKFLOWS: Final = "workflows"
_SETS: Final = "sets"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
# Hidden, so that it is not one of the files of an agent with `source: .`.
_HIDDEN_MANIFEST: Final = ".agent.yaml"
_NAME_LINE: Final = re.compile(r"^name: .*\n", re.MULTILINE)


class ExportedDefinition(NamedTuple):
    """A definition with its manifest and, of an agent with `source`, the folder's files by path."""

    kind: str
    name: str
    version: int
    text: str
    set_name: str | None = None
    source: str | None = None
    files: Mapping[str, bytes] = MappingProxyType({})


def command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder to write; empty, or not there yet.")],
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Write the newest version of every definition as a manifest, and the code of agents beside it.

    Where nothing has changed since, applying the files makes no new version.
    """
    with option_names(NAMED_OPTIONS), connected(grpc) as backend:
        definitions = list(_read_definitions(backend))
    paths = _write(folder, definitions)
    if as_json:
        items = [
            {"kind": each.kind, "name": each.name, "version": each.version, "set": each.set_name, "file": str(path)}
            for each, path in zip(definitions, paths, strict=True)
        ]
        print_json({"items": items})
        return
    if not definitions:
        print_line("The deployment has no definitions; nothing is written.")
        return
    print_line(f"{len(definitions):,} definitions are in {folder}. Apply them with:")
    for line in _apply_commands(definitions, paths):
        print_line(line)


def _read_definitions(backend: BackendClient) -> Iterator[ExportedDefinition]:
    """Yields every definition, resources before the workflows that use them."""
    set_pages = backend.pages(backend.definitions.ListSets, definitions_pb2.ListSetsRequest(page_size=PAGE))
    owners = {
        (member["kind"], member["id"]): each["name"] for each in items_of(set_pages) for member in each["members"]
    }
    for kind, (_, number) in _FOLDERS.items():
        request = workflows_pb2.ListResourcesRequest(kind=number, page_size=PAGE)
        pages = backend.pages(backend.workflows.ListResources, request)
        for item in items_of(pages):
            manifest = _read_manifest(backend, kind, item["resource_id"], owners)
            if kind == "Agent":
                yield _add_source(backend, item["resource_id"], manifest)
            else:
                yield manifest
    listing = workflows_pb2.ListWorkflowsRequest(page_size=PAGE, include_inactive=True)
    workflow_pages = backend.pages(backend.workflows.ListWorkflows, listing)
    for item in items_of(workflow_pages):
        manifest = _read_manifest(backend, "Workflow", item["workflow_id"], owners)
        yield manifest._replace(text=_NAME_LINE.sub(rf"\g<0>status: {item['status']}\n", manifest.text, count=1))


def _read_manifest(
    backend: BackendClient, kind: str, definition: str, owners: Mapping[tuple[str, str], str]
) -> ExportedDefinition:
    request = definitions_pb2.GetManifestRequest(kind=kind, definition=definition)
    found = backend.call(backend.definitions.GetManifest, request)
    if not found.text:
        raise CommandError(f"{kind} {found.name} is too long for a manifest; nothing is written.")
    return ExportedDefinition(kind, found.name, found.version, found.text, owners.get((kind, definition)))


def _add_source(backend: BackendClient, agent_id: str, manifest: ExportedDefinition) -> ExportedDefinition:
    """Returns an agent with the files of its `source`, if it has one."""
    request = workflows_pb2.GetResourceRequest(
        kind=workflows_pb2.RESOURCE_KIND_AGENT, resource=agent_id, version=manifest.version
    )
    definition = record_of(backend.call(backend.workflows.GetResource, request))["definition"].value()
    if "digest" not in definition:
        return manifest
    code_request = definitions_pb2.GetAgentCodeRequest(agent=agent_id, version=manifest.version)
    code = backend.call(backend.definitions.GetAgentCode, code_request)
    with zipfile.ZipFile(io.BytesIO(code.archive)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    return manifest._replace(source=definition["source"], files=files)


def _write(folder: Path, definitions: Sequence[ExportedDefinition]) -> list[Path]:
    """Writes all definitions and returns the paths of their manifests.

    Raises:
        CommandError: the folder is not empty, or a file cannot be written.
    """
    paths: list[Path] = []
    taken: set[Path] = set()
    with writing():
        if folder.exists() and any(folder.iterdir()):
            raise CommandError(f"{folder} must be empty, or not exist: nothing is written over.")
        for each in definitions:
            path = _path_of(folder, each, taken)
            contents = {path: each.text.encode()}
            if each.source is not None:
                source = path.parent / safe_path(each.source)
                contents |= {source / safe_path(name): content for name, content in each.files.items()}
            for target, content in contents.items():
                with replaced(target) as file:
                    file.write(content)
            paths.append(path)
    return paths


def _path_of(folder: Path, definition: ExportedDefinition, taken: set[Path]) -> Path:
    """Returns the path of a manifest, from its set and the definition's name, with a number if the path is taken."""
    kind = _WORKFLOWS if definition.kind == "Workflow" else _FOLDERS[definition.kind][0]
    if definition.set_name is not None:
        folder = folder / _SETS / definition.set_name
    stem = _UNSAFE.sub("-", definition.name).strip(".-") or "unnamed"
    number = 1
    # A file system may not tell upper case from lower case.
    while _lower(base := folder / kind / (stem if number == 1 else f"{stem}-{number}")) in taken:
        number += 1
    taken.add(_lower(base))
    if definition.source is None:
        return base.with_name(f"{base.name}.yaml")
    return base / (_HIDDEN_MANIFEST if definition.source == "." else "agent.yaml")


def _lower(path: Path) -> Path:
    return path.with_name(path.name.lower())


def _apply_commands(definitions: Sequence[ExportedDefinition], paths: Sequence[Path]) -> Iterator[str]:
    """Yields a command for the definitions that no set owns, then one for each set by name."""
    files: dict[str, list[str]] = {}
    for each, path in zip(definitions, paths, strict=True):
        plain = each.source is None
        pattern = f"{shlex.quote(str(path.parent))}/*.yaml" if plain else shlex.quote(str(path))
        files.setdefault(each.set_name or "", []).append(pattern)
    for set_name, patterns in sorted(files.items()):
        option = f"--set {set_name} " if set_name else ""
        yield f"workflow-api apply {option}{' '.join(dict.fromkeys(patterns))}"
