import pytest

from backend.runtime.execution.dag import plan, unmet_need
from backend.services.workflows.manifests.names import DEFAULT_ENVIRONMENT
from backend.services.workflows.resolved_workflow import AGENT, APPROVAL, ResolvedStep


def _step(step: str, kind: str = AGENT, needs: tuple[str, ...] = (), optional: bool = False) -> ResolvedStep:
    return ResolvedStep(step, step, kind, needs, optional, None, None, None, DEFAULT_ENVIRONMENT, {}, "", None)


def _steps(**needs: str) -> list[ResolvedStep]:
    """`a="b c?"`: step a needs b and c; a name that ends with an underscore is an optional step."""
    return [_step(name, needs=tuple(behind.split()), optional=name.endswith("_")) for name, behind in needs.items()]


def test_a_step_may_begin_when_all_it_needs_has_completed() -> None:
    steps = _steps(a="", b="", c="a b", d="a")
    now = plan(steps, {"a": "completed", "b": "running", "c": "pending", "d": "pending"})
    assert now.begin == ("d",)
    assert not now.done


def test_steps_without_needs_begin_together_in_the_order_of_the_definition() -> None:
    assert plan(_steps(c="", a="", b=""), dict.fromkeys("abc", "pending")).begin == ("c", "a", "b")


def test_an_approval_is_requested_and_not_begun() -> None:
    steps = [_step("a"), _step("gate", kind=APPROVAL, needs=("a",))]
    assert plan(steps, {"a": "completed", "gate": "pending"}).request == ("gate",)
    parked = plan(steps, {"a": "completed", "gate": "waiting_for_approval"})
    assert (parked.request, parked.begin, parked.done) == ((), (), False)


def test_optional_steps_behind_an_optional_failure_are_skipped_in_any_order() -> None:
    steps = _steps(c_="b_", b_="a_", a_="", d="")
    now = plan(steps, {"a_": "failed", "b_": "pending", "c_": "pending", "d": "completed"})
    assert now.skip == ("c_", "b_")
    assert (now.failed, now.stuck, now.done) == (None, None, True)


def test_a_required_step_behind_an_optional_failure_is_stuck() -> None:
    now = plan(_steps(a_="", b="a_", c_="b"), {"a_": "failed", "b": "pending", "c_": "pending"})
    assert (now.block, now.skip, now.stuck, now.failed) == (("b", "c_"), (), "b", None)


@pytest.mark.parametrize("order", ["ab_", "b_a"])
def test_a_required_step_behind_a_skip_and_an_optional_failure_is_blocked_in_any_order(order: str) -> None:
    status = {"a": "running", "b_": "running", "c": "pending"}
    for step, end in sorted({"a": "skipped", "b_": "failed"}.items(), key=lambda item: order.index(item[0])):
        status[step] = end
        now = plan(_steps(a="", b_="", c="a b_"), status)
        assert now.skip == ()
    assert now.block == ("c",)


def test_a_required_failure_blocks_what_is_behind_it_and_nothing_else() -> None:
    now = plan(_steps(a="", b="a", c="", d_="b"), {"a": "failed", "b": "pending", "c": "pending", "d_": "pending"})
    assert (now.failed, now.block, now.stuck) == ("a", ("b", "d_"), None)
    assert now.begin == ("c",), "the caller decides not to"


def test_a_rejected_approval_is_stuck() -> None:
    steps = [_step("gate", kind=APPROVAL), _step("after", needs=("gate",))]
    now = plan(steps, {"gate": "blocked", "after": "pending"})
    assert (now.stuck, now.block) == ("gate", ("after",))


@pytest.mark.parametrize("status", ["completed", "failed", "skipped", "cancelled", "blocked"])
def test_a_workflow_is_done_when_nothing_is_open(status: str) -> None:
    assert plan(_steps(a_=""), {"a_": status}).done


@pytest.mark.parametrize("status", ["running", "pending", "waiting_for_approval"])
def test_a_workflow_with_an_open_step_is_not_done(status: str) -> None:
    assert not plan(_steps(a=""), {"a": status}).done


def test_the_unmet_need_is_the_first_that_will_not_complete() -> None:
    step = _step("d", needs=("a", "b", "c"))
    assert unmet_need(step, {"a": "completed", "b": "skipped", "c": "failed"}) == "b"
    assert unmet_need(step, {"a": "completed", "b": "running", "c": "pending"}) is None
