"""Patterns by which agents of type `llm` choose files for the prompt of their model (docs/agents.md)."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

from backend.common.json_text import JsonMapping

INPUTS_ROOT: Final = "inputs"
FILES_ROOT: Final = "files"
MOST_PATTERNS: Final = 20
LONGEST_PATTERN: Final = 200

PATTERN: Final = re.compile(
    rf"(?:{INPUTS_ROOT}|{FILES_ROOT})(?:/(?!\.\.?(?:/|$))(?!\*\*[^/]|[^/]*[^/*]\*\*)[^/\x00-\x1f\x7f\\]+){{2,}}"
)
"""Paths as those of `context.inputs` and `context.files`, whose parts may have `*`, `?` and `[…]`, or be `**`."""
MUST_BE: Final = "a pattern as inputs/uploads/*.png or files/extract/*.pdf, without . and .. as parts"

_WILD: Final = re.compile(r"[*?\[]")


def attach_patterns(agent: JsonMapping) -> Sequence[str]:
    """Returns the patterns of the files that an agent attaches to its prompt."""
    patterns: Sequence[str] = agent.get("attach") or () if agent.get("type") == "llm" else ()
    return patterns


def named_step(pattern: str) -> str | None:
    """Returns the step that a pattern names; None for the run's inputs, and where the step's part is a pattern too."""
    root, step, *_ = pattern.split("/")
    return None if root != FILES_ROOT or _WILD.search(step) else step


def matches(path: str, pattern: str) -> bool:
    """Returns whether a pattern chooses a path; `*` stays within a part, and `**` stands for any number of parts."""
    parts = path.split("/")
    # The places behind the parts that the pattern's parts so far can stand for.
    places = {0}
    for wanted in pattern.split("/"):
        if wanted == "**":
            places = set(range(min(places, default=len(parts) + 1), len(parts) + 1))
        else:
            places = {at + 1 for at in places if at < len(parts) and fnmatchcase(parts[at], wanted)}
    return len(parts) in places
