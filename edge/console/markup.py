"""HTML made of Markdown, cleaned of everything that is not formatting before a page holds it."""

import re
from typing import Final

import nh3
from markupsafe import Markup

_TAGS: Final = {
    *("h1", "h2", "h3", "h4", "h5", "h6", "p", "br", "hr", "blockquote", "pre", "code", "em", "strong", "s", "del"),
    *("ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "a"),
}
_ATTRIBUTES: Final = {"a": {"href", "title"}, "ol": {"start"}}
_HEADING: Final = re.compile(r"(</?)h([1-6])>")
_LEVELS_ABOVE: Final = 3
_LOWEST: Final = 6
_SCHEMES: Final = {"http", "https", "mailto"}


def sanitised(html: str) -> Markup:
    """Returns HTML with formatting and links to the web alone: no scripts, styles, forms or images.

    Its headings are below those of the page, of which three levels may stand above it.
    """
    clean = nh3.clean(
        html,
        tags=set(_TAGS),
        attributes={tag: set(names) for tag, names in _ATTRIBUTES.items()},
        url_schemes=set(_SCHEMES),
        link_rel="noopener noreferrer nofollow",
    )
    lowered = _HEADING.sub(lambda tag: f"{tag[1]}h{min(_LOWEST, int(tag[2]) + _LEVELS_ABOVE)}>", clean)
    return Markup(lowered)  # noqa: S704 - it was cleaned in the line above
