"""The inputs manifest: the objects that a run began with, by which a later copy is checked (contract 14.8, 25.6)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

Item = Mapping[str, Any]
Entry = dict[str, Any]

MAX_ITEMS_LISTED: Final = 1_000


def item_of(key: str, size: int, etag: str) -> Item:
    """Returns an object as the manifest lists it; `size` in bytes, `etag` without quotation marks."""
    return {"key": key, "size_bytes": size, "etag": etag}


def manifest_entry(parameter: str, connector_id: str | None, uri: str, items: Sequence[Item]) -> Entry:
    """Returns the entry of one input, which counts all objects and lists the first 1,000."""
    return {
        "parameter": parameter,
        "connector_id": connector_id,
        "uri": uri,
        "objects": len(items),
        "bytes": sum(item["size_bytes"] for item in items),
        "items": items[:MAX_ITEMS_LISTED],
    }


def require_unchanged(entry: Entry, items: Sequence[Item], recorded: Entry | None) -> None:
    """Compares objects with those that the run began with; `recorded` is None in the run's first segment.

    Beyond the listed objects only their number and bytes can be compared.

    Raises:
        ValueError: an object was changed, removed or added.
    """
    if recorded is None:
        return
    now, before = {_identity(item) for item in items}, {_identity(item) for item in recorded["items"]}
    keys = {item["key"] for item in items}
    for key, *_ in sorted(before - now):
        raise ValueError(f"the object {key!r} was {'changed' if key in keys else 'removed'} after the run began")
    if (entry["objects"], entry["bytes"]) == (recorded["objects"], recorded["bytes"]):
        return
    if recorded["objects"] <= MAX_ITEMS_LISTED:
        for key, *_ in sorted(now - before):
            raise ValueError(f"the object {key!r} was added after the run began")
    raise ValueError(
        f"the run began with {recorded['objects']:,} objects of {recorded['bytes']:,} bytes, and now there are "
        f"{entry['objects']:,} of {entry['bytes']:,}"
    )


def _identity(item: Item) -> tuple[str, int, str]:
    return item["key"], item["size_bytes"], item["etag"]
