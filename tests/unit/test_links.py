"""Links between the documents of the repository lead to files, and to headings, that exist."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "examples" / "document-graph" / "documents"
"""What an example reads; one of its links leads nowhere on purpose."""
NOT_OURS = {"build", "dist", "node_modules"}


def documents_in(folder: Path) -> Iterator[Path]:
    """Yields documents without a look into folders of tools, which have more files than all others together."""
    for path in folder.iterdir():
        if path.is_dir() and not path.name.startswith(".") and path.name not in NOT_OURS and path != SAMPLES:
            yield from documents_in(path)
        elif path.suffix == ".md":
            yield path


FENCED = re.compile(r"^( *)(```+|~~~+)(?!`).*?^ *\2 *$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`+)(?!`)(?:.*?[^`])\1(?!`)", re.DOTALL)
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?[^)]*\)")
DEFINITION = re.compile(r"^ {0,3}\[[^\]]+\]:\s*<?([^\s>]+)>?", re.MULTILINE)
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
TEXT_OF_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
NAMED_ANCHOR = re.compile(r"""<a\s+(?:id|name)=["']([^"']+)["']""")


def targets_of(text: str) -> Iterator[str]:
    """Yields the targets of links and of link definitions, code left aside."""
    prose = CODE.sub("", FENCED.sub("", text))
    yield from LINK.findall(prose)
    yield from DEFINITION.findall(prose)


@cache
def anchors_of(document: Path) -> frozenset[str]:
    """Returns the anchors that GitHub makes of the headings of a document, and those that it names itself."""
    prose = FENCED.sub("", document.read_text(encoding="utf-8"))
    seen: Counter[str] = Counter()
    anchors = set(NAMED_ANCHOR.findall(prose))
    for heading in HEADING.findall(prose):
        words = TEXT_OF_LINK.sub(r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        anchors.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return frozenset(anchors)


def problem_of(document: Path, target: str) -> str | None:
    """Returns what is wrong with a link of a document; None if it leads somewhere, or out of the repository."""
    if ELSEWHERE.match(target):
        return None
    path, _, anchor = unquote(target).partition("#")
    found = (document.parent / path).resolve() if path else document
    if not found.exists() or not found.is_relative_to(ROOT):
        return f"{target}: no such file"
    if anchor and (found.suffix != ".md" or anchor not in anchors_of(found)):
        return f"{target}: no such heading"
    return None


def test_every_link_leads_somewhere() -> None:
    documents = sorted(documents_in(ROOT))
    assert ROOT / "README.md" in documents
    assert {path.relative_to(ROOT).as_posix(): found for path in documents if (found := problems_in(path))} == {}


def problems_in(document: Path) -> list[str]:
    problems = [problem_of(document, target) for target in targets_of(document.read_text(encoding="utf-8"))]
    return [problem for problem in problems if problem]


def test_links_are_found_and_judged(tmp_path: Path) -> None:
    page = ROOT / "docs" / "architecture.md"
    text = "[a\nb](contract.md) `[c](gone.md)` [d](gone.md 'title')\n```\n[e](gone.md)\n```\n[f]: #nowhere\n<https://x>"
    assert list(targets_of(text)) == ["contract.md", "gone.md", "#nowhere"]
    assert problem_of(page, "contract.md") is None
    assert problem_of(page, "https://example.com/gone") is None
    assert problem_of(page, "gone.md") == "gone.md: no such file"
    assert problem_of(page, "#nowhere") == "#nowhere: no such heading"
    assert problem_of(page, "#the-life-of-a-call") is None
    repeated = tmp_path / "page.md"
    repeated.write_text("# `a_b` and [c d](x)!\n## Twice\n## Twice\n```\n# no heading\n```\n")
    assert anchors_of(repeated) == {"a_b-and-c-d", "twice", "twice-1"}
