"""Prints every fenced block of the documents with how it is held: python -m tests.documents."""

import sys

from tests.documents.held import held_blocks
from tests.support.page import ROOT

for page, block, how in held_blocks():
    place = f"{page.relative_to(ROOT)}:{block.line}"
    sys.stdout.write(f"{place:44} {block.language:10} {how or 'NOT HELD'}\n")
