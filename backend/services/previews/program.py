"""Program of the confined processes that render Markdown; see `backend.isolation.confined`."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from markdown_it import MarkdownIt


def markdown(arguments: Mapping[str, Any], _: list[int]) -> str:
    """Returns the Markdown `text` as HTML; HTML in the Markdown is escaped."""
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    rendered: str = parser.render(arguments["text"])
    return rendered


OPERATIONS: Final[Mapping[str, Callable[[Mapping[str, Any], list[int]], Any]]] = {"markdown": markdown}
