"""Renderings of hostile files: bounded, and by their content."""

from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from backend.resources.renderings.renderer import Rendered, Renderer


@pytest.fixture(scope="module")
def renderer() -> Iterator[Renderer]:
    renderer = Renderer(Event())
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


def slow_document(source: Path) -> Path:
    """Writes a PDF whose page takes seconds to draw."""
    lines = b"0 0 m 900 900 l 0 900 l 900 0 l S\n" * 300_000
    source.write_bytes(
        b"%%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Count 1/Kids[3 0 R]>>endobj\n"
        b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 900 900]/Contents 4 0 R>>endobj\n"
        b"4 0 obj<</Length %d>>stream\n%sendstream endobj\ntrailer<</Root 1 0 R/Size 5>>\n%%%%EOF\n"
        % (len(lines), lines)
    )
    return source


def test_a_caller_waits_no_longer_than_it_says(renderer: Renderer, tmp_path: Path) -> None:
    source = slow_document(tmp_path / "source")
    with pytest.raises(TimeoutError):
        renderer.page(source, tmp_path / "target", 1, "owner", wait_seconds=0.1)


def test_what_a_stop_ends_is_not_taken_for_malformed(tmp_path: Path) -> None:
    halt = Event()
    halt.set()
    renderer = Renderer(halt)
    with pytest.raises(TimeoutError):
        renderer.page(slow_document(tmp_path / "source"), tmp_path / "target", 1, "owner")
    renderer.close()
