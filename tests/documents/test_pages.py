"""The pages that people follow work as they are written, against a started service."""

import shutil
from pathlib import Path

import pytest

from tests.documents.conftest import Reader
from tests.support.page import FOLLOWED, ROOT


@pytest.mark.parametrize("page", FOLLOWED, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_commands_of_a_page_do_what_it_says(reader: Reader, page: Path) -> None:
    for program in ("curl", "jq"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    reader.follows(page)
