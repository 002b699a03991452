"""Converts definitions to YAML manifests for people: fields in the order of the reference, without defaults."""

from collections.abc import Mapping
from typing import Any, Final

import yaml

from backend.common.json_text import JsonMapping, JsonObject
from backend.services.workflows.manifests.kinds import KINDS
from backend.services.workflows.manifests.records import Either, ListOf, MapOf, Record, Variant
from backend.services.workflows.manifests.variables import escape_variables, has_no_variables
from backend.services.workflows.manifests.yaml_reader import plain_scalar


def yaml_text(value: JsonMapping) -> str:
    """Returns a value as YAML in the order of its members, with multi-line text as blocks."""
    return yaml.dump(value, Dumper=_ManifestDumper, allow_unicode=True, sort_keys=False, width=10_000)


class _ManifestDumper(yaml.SafeDumper):
    """YAML dumper without aliases, whose scalars the reader reads back as equal values."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - of no value is an alias made
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    if not isinstance(plain_scalar(text), str):
        # The reader recognises more forms of numbers than PyYAML quotes.
        style = "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_ManifestDumper.add_representer(str, _text)


# Fields that loading adds to a definition, and that a manifest must not have.
_ADDED: Final[Mapping[str, tuple[str, ...]]] = {"Agent": ("files", "digest"), "Environment": ("root_digest",)}
_OF_PACKAGES: Final = ("packages", "preload")


def manifest_text(kind: str, definition: JsonMapping) -> str:
    """Returns YAML that gives the same definition again when it is applied.

    The code of an agent with `code_file` is written as `code`.
    """
    return yaml_text(manifest_value(kind, definition))


def manifest_value(kind: str, definition: JsonMapping) -> JsonObject:
    """Returns a definition as the value of its manifest; see `manifest_text`."""
    value = {name: each for name, each in definition.items() if name not in _ADDED.get(kind, ())}
    if kind == "Agent" and value.get("code_file") is not None:
        del value["code_file"]
    if kind == "Environment" and value.get("python"):
        value["python"] = {name: value["python"][name] for name in _OF_PACKAGES}
    short: JsonObject = _without_defaults(KINDS[kind], value)
    return {"kind": kind, **{name: _escaped(kind, name, each) for name, each in short.items()}}


def _escaped(kind: str, name: str, value: Any) -> Any:
    """Returns the value of a field in whose texts `${vars.` stands for no variable."""
    if has_no_variables(kind, name):
        return value
    if isinstance(value, dict):
        return {inner: _escaped(kind, f"{name}.{inner}", each) for inner, each in value.items()}
    return escape_variables(value)


def _without_defaults(shape: object, value: Any) -> Any:
    """Returns a value without defaults, in the shortest form and the field order of its shape."""
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
