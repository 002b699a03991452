"""Writes a definition as the manifest that people edit, in the order of the reference and without defaults."""

from collections.abc import Mapping
from typing import Any, Final

from backend.workflows.manifests.kinds import KINDS
from backend.workflows.manifests.records import Either, ListOf, MapOf, Record, Variant
from backend.workflows.manifests.yaml_writer import yaml_text

# What reading adds to a definition: the code of a file is written as text, and the digests of a folder not at all.
_ADDED: Final[Mapping[str, tuple[str, ...]]] = {"Agent": ("files", "digest")}
_OF_PACKAGES: Final = ("packages", "preload")


def manifest_text(kind: str, definition: Mapping[str, Any]) -> str:
    """Returns YAML which, when it is applied, gives the definition again.

    An agent with `code_file` gets its text as `code`.
    """
    return yaml_text(manifest_value(kind, definition))


def manifest_value(kind: str, definition: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the value of that YAML."""
    value = {name: each for name, each in definition.items() if name not in _ADDED.get(kind, ())}
    if kind == "Agent" and value.get("code_file") is not None:
        del value["code_file"]
    if kind == "Environment" and value.get("python"):
        value["python"] = {name: value["python"][name] for name in _OF_PACKAGES}
    return {"kind": kind, **_without_defaults(KINDS[kind], value)}


def _without_defaults(shape: object, value: Any) -> Any:
    """Returns a value as short as its shape allows, its fields in the order of the shape."""
    if isinstance(shape, Variant) and isinstance(value, dict):
        word = str(value.get(shape.tag, shape.default))
        tag = {} if word == shape.default else {shape.tag: word}
        return {**tag, **_without_defaults(shape.records[word], value)}
    if isinstance(shape, Record) and isinstance(value, dict):
        return {
            name: _without_defaults(field.shape, value[name])
            for name, field in shape.fields.items()
            if name in value and (field.required or value[name] != field.default)
        }
    if isinstance(shape, Either) and isinstance(value, dict):
        short = _without_defaults(shape.record, value)
        return short[shape.short] if short.keys() == {shape.short} else short
    if isinstance(shape, ListOf) and isinstance(value, list):
        return [_without_defaults(shape.member, each) for each in value]
    if isinstance(shape, MapOf) and isinstance(value, dict):
        return {name: _without_defaults(shape.member, each) for name, each in value.items()}
    return value
