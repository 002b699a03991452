"""Every fenced block of every document is run, tried, checked or a drawing, and what it names exists."""

import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest

from tests.documents.checks import CHECKS
from tests.documents.commands import named
from tests.documents.held import DRAWINGS, PAGES, TRIED, held_blocks
from tests.support.page import FOLLOWED, ROOT, SHELL, Block, blocks_of

HELD = held_blocks()
MENTION = re.compile(r"`(?:\.venv/bin/)?workflow-api ([^`]+)`")
MOST_NOT_RUN = 20


def place(page: Path, block: Block) -> str:
    return f"{page.relative_to(ROOT)}:{block.line}"


CHECKED = {
    place(page, block): (page, block)
    for page, block, _ in HELD
    if block.language in CHECKS
    and not (page in FOLLOWED and block.is_output)
    and block.language not in TRIED.get(page.relative_to(ROOT).as_posix(), ("", {}))[1]
}


def test_every_block_is_held_by_something() -> None:
    """A block that is not run with its page, is tried by a test, has a language that is checked, or is a drawing."""
    assert [f"{place(page, block)} {block.language}" for page, block, how in HELD if how is None] == []


def test_few_blocks_are_left_out_and_say_why() -> None:
    left = [place(page, block) for page, block, _ in HELD if block.reason and block.language not in DRAWINGS]
    assert len(left) <= MOST_NOT_RUN, left


@pytest.mark.parametrize("page", TRIED)
def test_a_test_of_a_page_reads_it_and_knows_how_many_blocks_it_tries(page: str) -> None:
    module, expected = TRIED[page]
    text = (ROOT / module).read_text(encoding="utf-8")
    assert f'"{Path(page).name}"' in text, module
    assert "DOCS" in text or f'"{Path(page).parent.name}"' in text, module
    found = [block.language for block in blocks_of(ROOT / page) if block.reason is None]
    assert {language: found.count(language) for language in expected} == expected, f"try the others in {module}"


@pytest.mark.parametrize(("page", "block"), CHECKED.values(), ids=CHECKED)
def test_a_block_is_valid_for_what_reads_it(page: Path, block: Block, tmp_path: Path) -> None:
    check = CHECKS[block.language]
    problem = check(block.body, tmp_path)
    if problem is not None and block.language == "toml":
        # Two blocks may be parts of one file, such as certificates and who may call what.
        parts = [each for each in blocks_of(page) if each.language == block.language]
        at = parts.index(block)
        pairs = [first.body + second.body for first, second in pairwise(parts[max(0, at - 1) : at + 2])]
        assert None in [check(pair, tmp_path) for pair in pairs], problem
    else:
        assert problem is None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_and_options_that_a_page_mentions_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    mentions = [*MENTION.findall(re.sub(r"^ *```.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE))]
    for block in blocks_of(page):
        if block.language in SHELL:
            mentions += re.findall(r"(?:^|[\s(])workflow-api ([^|&;#\n]+)", block.body.replace("\\\n", " "))
    unknown = {
        mention: wrong
        for mention in mentions
        if (wrong := named(shlex.split(re.sub(r"""["'()]""", "", mention)))) is not None
    }
    assert unknown == {}
