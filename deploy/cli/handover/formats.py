"""Writes blocks of a page as Markdown or PDF; all text of blocks is plain, and never markup."""

import datetime as dt
import json
import re
from collections.abc import Iterable
from typing import Final

from backend.common.optional_parts import HANDOVER
from deploy.cli.handover.page import Block, Heading, Paragraph, Snippet, Table
from deploy.failures import CommandError

# Underscores within words are plain, so that ids can be copied from the text.
_MARKDOWN: Final = re.compile(r"([\\`*\[\]<>|#]|(?<!\w)_|_(?!\w))")
_LINE_ENDS: Final = re.compile(r"\s*[\r\n]\s*")


def as_markdown(blocks: Iterable[Block]) -> str:
    """Returns blocks as Markdown with tables."""
    return "\n".join(_markdown(block) for block in blocks)


def _markdown(block: Block) -> str:
    match block:
        case Heading(level, text):
            return f"{'#' * level} {_escaped(text)}\n"
        case Paragraph(text):
            return f"{_escaped(text)}\n"
        case Snippet(language, code):
            return f"```{language}\n{code.rstrip()}\n```\n"
        case Table(heads, rows):
            lines = [heads, ("---",) * len(heads), *(tuple(map(_escaped, row)) for row in rows)]
            return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _escaped(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", _LINE_ENDS.sub(" ", text))


# The values come as data, so that no text of a key is read as Typst's markup.
_TYPST: Final = """
#let page-data = json(bytes(sys.inputs.page))
#set document(title: page-data.title)
#set page(paper: "a4", margin: 2cm, numbering: "1 / 1")
#set text(size: 10pt)
#show raw: set text(size: 8.5pt)
#show raw.where(block: true): block.with(fill: luma(245), inset: 8pt, radius: 3pt, width: 100%)
#for block in page-data.blocks {
  if block.kind == "Heading" { heading(level: block.level, block.text) }
  if block.kind == "Paragraph" { par(block.text) }
  if block.kind == "Snippet" { raw(block.code, lang: block.language, block: true) }
  if block.kind == "Table" {
    let count = block.heads.len()
    table(
      columns: (auto,) * calc.max(1, count - 2) + (1fr,) * calc.min(count - 1, 2),
      stroke: 0.5pt + luma(200),
      align: left,
      ..if block.heads.all(head => head == "") { () } else { block.heads.map(strong) },
      ..block.rows.flatten(),
    )
  }
}
"""


def as_pdf(blocks: Iterable[Block], at: dt.datetime) -> bytes:
    """Returns blocks as a PDF that is dated `at`.

    Raises:
        CommandError: the optional part that writes PDF is not installed.
    """
    if not HANDOVER.installed:
        raise CommandError(f"A PDF cannot be written: {HANDOVER.not_installed}")
    import typst

    data = [{"kind": type(block).__name__, **block._asdict()} for block in blocks]
    title = next((each["text"] for each in data if each["kind"] == "Heading"), "")
    pages = json.dumps({"title": title, "blocks": data})
    pdf = typst.compile(_TYPST.encode(), format="pdf", sys_inputs={"page": pages}, timestamp=at)
    assert isinstance(pdf, bytes)
    return pdf
