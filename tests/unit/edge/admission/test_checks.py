from itertools import pairwise

from contract.call_trials import CheckName
from contract.refusals import BY_CODE
from edge.admission.checks import CHECKS


def test_the_orders_of_the_checks_ascend_without_gaps() -> None:
    orders = [check.order for check in CHECKS]
    assert all(later - earlier in {0, 1} for earlier, later in pairwise(orders))
    assert (orders[0], orders[-1]) == (0, 5)


def test_checks_refuse_with_codes_of_the_contract() -> None:
    assert {code for check in CHECKS for code in check.refusals} <= set(BY_CODE)


def test_only_checks_of_a_key_come_after_the_first_order() -> None:
    assert [check.run.__name__ for check in CHECKS if check.order == 0] == [
        "bound_body",
        "answer_preflight",
        "match_route",
        "parse_body",
    ]


def test_every_check_has_a_name_of_its_own_in_trials() -> None:
    assert sorted(check.name.value for check in CHECKS) == [name.value for name in CheckName]
