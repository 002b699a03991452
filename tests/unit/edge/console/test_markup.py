import re

import pytest

from edge.console.markup import sanitised


@pytest.mark.parametrize(
    "html",
    [
        "<script>alert(1)</script>",
        '<a href="javascript:alert(1)">',
        '<a href="data:text/html,alert(1)">',
        '<p onclick="alert(1)" style="x" class="y" id="z">',
        '<img src=x onerror="alert(1)"><svg onload="alert(1)">',
        '<form action="/alert"><input name="alert"></form><iframe src="alert"></iframe><style>alert</style>',
        "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=alert(1)&gt;'>",
    ],
)
def test_nothing_but_formatting_is_left(html: str) -> None:
    left = "".join(re.findall("<[^>]*>", sanitised(html)))
    assert not re.search("alert|style|class|id=|img|svg|form|script", left)


def test_formatting_tables_and_links_stay() -> None:
    kept = "<p>T</p><table><tbody><tr><td>1</td></tr></tbody></table>"
    assert sanitised(kept) == kept
    link = sanitised('<a href="https://example.org/">x</a>')
    assert link == '<a href="https://example.org/" rel="noopener noreferrer nofollow">x</a>'


def test_headings_are_below_those_of_the_page() -> None:
    assert sanitised("<h1>A</h1><h2>B</h2><h6>C</h6>") == "<h4>A</h4><h5>B</h5><h6>C</h6>"
