"""Finds the documents that a workflow needs in other files of its folder."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from backend.services.workflows.manifests.loader import ManifestText
from backend.services.workflows.manifests.variables import NO_VARIABLES, Variables, replace_variables
from deploy.client.manifests import manifest_messages
from deploy.client.packing import pack
from workflow_api.v1 import workflows_pb2

# Without libyaml, PyYAML reads more slowly.
_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SUFFIXES: Final = frozenset({".yaml", ".yml"})
_MOST_FILES: Final = 200
_LARGEST_BYTES: Final = 1_048_576

Reference = tuple[str, str]
"""Kind and name of a document."""


@dataclass(frozen=True, slots=True)
class NearbyManifests:
    """Documents found in other files, and their places."""

    files: list[workflows_pb2.ManifestFile]
    places: list[tuple[Reference, str]]


def named_documents(
    kind: str, files: Sequence[workflows_pb2.ManifestFile], variables: Variables = NO_VARIABLES
) -> dict[str, dict[str, Any]]:
    """Returns the documents of one kind in files by name, in order, with the values of their variables.

    The service reports unreadable documents.
    """
    return {
        name: document
        for file in files
        for (of_kind, name), document, *_ in _documents(file.content, variables)
        if of_kind == kind
    }


def nearby_manifests(
    files: Sequence[workflows_pb2.ManifestFile], variables: Variables = NO_VARIABLES
) -> NearbyManifests:
    """Returns the documents in the folders of `files` that `files` refer to, directly or indirectly, and lack.

    A document keeps its line numbers, so that its problems are named where they are, and has the files that it names.

    Raises:
        CommandError: the code of a document cannot be packed; the details name every problem.
    """
    known: dict[Reference, Any] = {
        reference: document for file in files for reference, document, *_ in _documents(file.content, variables)
    }
    missing = {reference for document in known.values() for reference in _references(document)} - known.keys()
    found: list[ManifestText] = []
    places: list[tuple[Reference, str]] = []
    if not missing:
        return NearbyManifests([], places)
    own = {Path(file.name).resolve() for file in files}
    for path in manifests_in_folders_of(own):
        try:
            text = path.read_bytes().decode()
        except (OSError, UnicodeDecodeError):
            # Files that are no manifests are skipped.
            continue
        lines = text.splitlines(keepends=True)
        for reference, _, first, last in _documents(text, variables):
            if reference in missing:
                missing.discard(reference)
                places.append((reference, str(path)))
                part = "\n" * first + "".join(lines[first:last])
                found.append(ManifestText(str(path), part, pack(path.parent, part, variables)))
    return NearbyManifests(manifest_messages(found, variables), places)


def _references(document: Any) -> Iterator[Reference]:
    """Yields the references of a document, whose shape is not checked yet."""
    if document.get("kind") != "Workflow":
        return
    for step in _dicts(document.get("steps")):
        yield from _named("Agent", step.get("agent"))
        yield from _named("Environment", step.get("environment"))
        for name in step.get("connectors") or ():
            yield from _named("Connector", name)
    for parameter in _dicts(document.get("parameters")):
        yield from _named("Connector", parameter.get("connector"))
    for publication in _dicts(document.get("publish")):
        yield from _named("KnowledgeGraph", publication.get("knowledge_graph"))


def _named(kind: str, name: object) -> Iterator[Reference]:
    if isinstance(name, str):
        yield kind, name


def _dicts(value: object) -> list[dict[str, Any]]:
    return [member for member in value if isinstance(member, dict)] if isinstance(value, list) else []


def _documents(text: str, variables: Variables) -> Iterator[tuple[Reference, dict[str, Any], int, int]]:
    """Yields reference, value and lines of each document that has a kind and a name."""
    # Read document by document, as the service reads manifests.
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is None:
                continue
            value = replace_variables(loader.construct_document(node), variables)
            if isinstance(value, dict) and isinstance(value.get("kind"), str) and isinstance(value.get("name"), str):
                yield (value["kind"], value["name"]), value, node.start_mark.line, node.end_mark.line + 1
    except (yaml.YAMLError, ValueError, RecursionError):
        # The service reports the problem, with its line.
        return
    finally:
        loader.dispose()


def manifests_in_folders_of(own: set[Path]) -> list[Path]:
    """Returns the other YAML files in the folders of `own`, in order; at most 200, without very large ones."""
    neighbours = sorted(
        path
        for folder in {path.parent for path in own}
        if folder.is_dir()
        for path in folder.iterdir()
        if path.suffix in _SUFFIXES and path not in own
    )
    return [path for path in neighbours[:_MOST_FILES] if path.is_file() and path.stat().st_size <= _LARGEST_BYTES]
