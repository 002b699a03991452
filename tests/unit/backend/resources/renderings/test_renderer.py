"""Renderings of hostile files: bounded, and by their content."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.resources.renderings.renderer import Rendered, Renderer


@pytest.fixture(scope="module")
def renderer() -> Iterator[Renderer]:
    renderer = Renderer()
    yield renderer
    renderer.close()


def test_html_in_markdown_is_escaped(renderer: Renderer) -> None:
    assert renderer.markdown("*a*<b>", "owner") == "<p><em>a</em>&lt;b&gt;</p>\n"


@pytest.mark.parametrize("content", [b"", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"\x89PNG\r\n\x1a\nIHDR"])
def test_a_file_that_is_no_picture_is_not_shown_whatever_its_name(
    renderer: Renderer, tmp_path: Path, content: bytes
) -> None:
    source = tmp_path / "picture.png"
    source.write_bytes(content)
    assert "no PNG, JPEG, GIF or WebP" in str(renderer.picture(source, "owner"))


def test_a_page_is_drawn_and_a_malformed_document_is_not(renderer: Renderer, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(
        b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Count 1/Kids[3 0 R]>>endobj\n"
        b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9999999 1]>>endobj\ntrailer<</Root 1 0 R/Size 4>>\n%%EOF\n"
    )
    assert renderer.document(source, "owner") == Rendered(pages=1)
    assert renderer.page(source, target, 1, "owner")
    assert target.read_bytes().startswith(b"\x89PNG")
    assert not renderer.page(source, target, 2, "owner")
    source.write_bytes(b"%PDF-1.4\n%%EOF")
    assert "malformed" in str(renderer.document(source, "owner"))
