"""Writes values as YAML that the reader reads as the same values, and that people like to read."""

from collections.abc import Mapping
from typing import Any

import yaml

from backend.workflows.manifests.yaml_reader import plain_scalar


def yaml_text(value: Mapping[str, Any]) -> str:
    """Returns a value as YAML, long text as blocks, in the order of its members."""
    return yaml.dump(value, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=10_000)


class _Dumper(yaml.SafeDumper):
    """Writes what the reader reads as the same value, and a repeated value again instead of an alias."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - of no value is an alias made
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    if not isinstance(plain_scalar(text), str):
        # The reader takes more forms of numbers than the writer knows.
        style = "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
