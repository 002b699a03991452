"""Differences between versions of definitions, as people read them."""

import difflib
from collections.abc import Mapping
from typing import Any, Final

import yaml

_MOST_LINES: Final = 20_000


def difference(before: Mapping[str, Any], after: Mapping[str, Any], names: tuple[str, str]) -> str:
    """Returns the unified difference of two definitions as YAML, "" if they are equal; `names` stand at its head."""
    old, new = (_yaml(definition).splitlines(keepends=True) for definition in (before, after))
    if len(old) + len(new) > _MOST_LINES:
        # The time of a comparison may rise with the square of the lines.
        return (
            "" if old == new else f"--- {names[0]}\n+++ {names[1]}\n(over {_MOST_LINES:,} lines, which are not shown)\n"
        )
    return "".join(difflib.unified_diff(old, new, *names))


def _yaml(definition: Mapping[str, Any]) -> str:
    return yaml.dump(definition, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=10_000)


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block, line by line, and a repeated value again instead of an alias."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - of no value is an alias made
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
