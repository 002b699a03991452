import re

import pytest

from contract.ids import request_id_from


@pytest.mark.parametrize("given", ["a", "A-Z.a_z:0-9", "x" * 128])
def test_a_fitting_id_is_kept(given: str) -> None:
    assert request_id_from([given]) == given


@pytest.mark.parametrize("given", [[], [""], ["x" * 129], ["a b"], ["a\n"], ["é"], ["\udcc3"], ["a", "a"]], ids=repr)
def test_anything_else_gets_a_new_id(given: list[str]) -> None:
    made = request_id_from(given)
    assert re.fullmatch(r"[0-9a-f]{32}", made)
    assert request_id_from(given) != made
