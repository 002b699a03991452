import re

import pytest

from console.rendering.text import sanitised


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
    left = "".join(re.findall("<[^>]*>", sanitised(html, 0)))
    assert not re.search("alert|style|class|id=|img|svg|form|script", left)


def test_formatting_tables_and_links_stay() -> None:
    kept = "<h1>T</h1><table><tbody><tr><td>1</td></tr></tbody></table>"
    assert sanitised(kept, 0) == kept
    link = sanitised('<a href="https://example.org/">x</a>', 0)
    assert link == '<a href="https://example.org/" rel="noopener noreferrer nofollow">x</a>'


@pytest.mark.parametrize(
    "to", ["/keys", "keys/new", "//example.org/", "?at=1", "#top", "/\\\\example.org", "\t//e.org"]
)
def test_a_link_leads_to_no_page_of_the_console(to: str) -> None:
    assert "href" not in sanitised(f'<a href="{to}">x</a>', 0)


def test_headings_come_below_those_of_the_page() -> None:
    assert sanitised("<h1>a</h1><h2>&lt;h1&gt;</h2><h6>c</h6>", 3) == "<h4>a</h4><h5>&lt;h1&gt;</h5><h6>c</h6>"
