"""What the sender of manifests expects to be there, so that nobody's newer version is replaced unseen."""

import json
from collections.abc import Iterator, Mapping, Sequence

from backend.storage.database import Database, Tx
from backend.workflows import definitions, resources_sql, sources_sql
from backend.workflows.agent_source import files_of
from backend.workflows.manifests.attachments import Attachments
from backend.workflows.manifests.loader import Manifest, ManifestText, refused

Expected = Mapping[tuple[str, str], int]
"""The version that each document replaces, by kind and name; 0 for one that is new."""


def with_kept_folders(database: Database, files: Sequence[ManifestText], expected: Expected) -> list[ManifestText]:
    """Returns files, to which the stored folders of the expected agents are attached where nothing else is."""
    kept = Attachments(database.snapshot(lambda tx: dict(_kept_folders(tx, expected))))
    return [file if file.attachments.files else file._replace(attachments=kept) for file in files]


def refuse_others(manifests: Sequence[Manifest], expected: Expected) -> None:
    """Refuses documents that are not expected, and expected ones that are not there."""
    present = {(manifest.kind, manifest.name) for manifest in manifests}
    wanted = ", ".join(f"{kind} {name!r}" for kind, name in expected)
    problems = [
        (f"{manifest.file}:{manifest.line}: name", f"must be of the only document, {wanted}")
        for manifest in manifests
        if (manifest.kind, manifest.name) not in expected
    ]
    problems += (("files", f"must hold {kind} {name!r}") for kind, name in expected if (kind, name) not in present)
    if problems:
        raise refused(problems)


def refuse_newer(tx: Tx, manifests: Sequence[Manifest], expected: Expected) -> None:
    """Refuses documents of which there is another version than expected."""
    problems = []
    for manifest in manifests:
        version = expected.get((manifest.kind, manifest.name))
        newest = definitions.newest_version(tx, manifest.kind, manifest.name)
        if version is not None and version != newest:
            place, reason = "version", f"must be of version {newest}, which is the newest now"
            if not version:
                place, reason = "name", "is taken: edit what has it, or choose another"
            elif not newest:
                reason = "does not exist any more"
            problems.append((f"{manifest.file}:{manifest.line}: {place}", reason))
    if problems:
        raise refused(problems)


def _kept_folders(tx: Tx, expected: Expected) -> Iterator[tuple[str, bytes]]:
    """Yields the stored files of the agents among these, by their paths from the folder of a manifest."""
    for kind, name in expected:
        row = resources_sql.resource(tx, "agent", name) if kind == "Agent" else None
        definition = {} if row is None else json.loads(row.definition)
        archive = sources_sql.archive(tx, definition["digest"]) if definition.get("source") else None
        if archive is not None:
            folder = "" if definition["source"] == "." else f"{definition['source']}/"
            yield from ((folder + path, content) for path, content in files_of(archive).items())
