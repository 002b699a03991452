"""HTML made of Markdown, cleaned of everything that is not formatting before a page holds it."""

import re
from typing import Final

import nh3
from markupsafe import Markup

from console.rendering.marks import marked

_TAGS: Final = {
    *("h1", "h2", "h3", "h4", "h5", "h6", "p", "br", "hr", "blockquote", "pre", "code", "em", "strong", "s", "del"),
    *("ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "a"),
}
_ATTRIBUTES: Final = {"a": {"href", "title"}, "ol": {"start"}}
_SCHEMES: Final = {"http", "https", "mailto"}
# Cleaned headings have no attributes.
_HEADING: Final = re.compile(r"<(/?)h([1-6])>")


def sanitised(html: str, below: int) -> Markup:
    """Returns HTML with formatting and links to the web alone: no scripts, styles, forms or images.

    Its headings come below one of the level `below` of the page.
    """
    clean = nh3.clean(
        html,
        tags=set(_TAGS),
        attributes={tag: set(names) for tag, names in _ATTRIBUTES.items()},
        url_schemes=set(_SCHEMES),
        # Of the console itself only its own templates make links.
        url_relative="deny",
        link_rel="noopener noreferrer nofollow",
    )
    lowered = _HEADING.sub(lambda found: f"<{found[1]}h{min(6, int(found[2]) + below)}>", clean)
    return Markup(marked(lowered))  # noqa: S704 - it is cleaned above
