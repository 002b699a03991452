"""docs/grpc.md says of RPCs and errors what the protos say."""

import pytest

from scripts.grpc_reference import PAGE, with_tables


def test_its_tables_are_those_of_the_protos() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_tables(page) == page, "run scripts/grpc_reference.py"


def test_a_page_without_a_table_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\['errors'\]"):
        with_tables("<!-- rpcs -->\n")
