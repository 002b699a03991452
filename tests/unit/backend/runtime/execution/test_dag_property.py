"""Any graph of steps with conditions, accepted statuses and failures ends, each step in the right status."""

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from backend.runtime.execution.dag import fails_run, plan
from backend.services.workflows.manifests.names import DEFAULT_ENVIRONMENT
from backend.services.workflows.resolved_workflow import AGENT, APPROVAL, Phase, ResolvedStep


class Trial(NamedTuple):
    """A step, and how it ends: whether its condition is true, and whether its work, or its approval, succeeds."""

    step: ResolvedStep
    condition: bool
    succeeds: bool


ACCEPTED = st.sets(st.sampled_from(["completed", "failed", "skipped"]), min_size=1)


@st.composite
def trials(draw: st.DrawFn) -> list[Trial]:
    found: list[Trial] = []
    for index in range(draw(st.integers(1, 9))):
        needs = draw(st.sets(st.sampled_from(range(index)), max_size=4)) if index else set()
        approval = draw(st.booleans()) and draw(st.booleans())
        step = ResolvedStep(
            step=f"s{index}",
            name=f"s{index}",
            kind=APPROVAL if approval else AGENT,
            needs=tuple(f"s{need}" for need in sorted(needs)),
            optional=not approval and draw(st.booleans()),
            agent_name=None,
            agent_id=None,
            agent=None,
            environment=DEFAULT_ENVIRONMENT,
            connectors={},
            title="",
            instructions=None,
            when="true" if draw(st.booleans()) else None,
            accept=frozenset(draw(ACCEPTED) if draw(st.booleans()) else {"completed"}),
            phase=Phase.MAIN,
        )
        found.append(Trial(step, step.when is None or draw(st.booleans()), draw(st.booleans())))
    order = draw(st.permutations(found))
    return list(order)


def executed(chosen: list[Trial], picks: list[int]) -> tuple[dict[str, str], str]:
    """Drives the steps to their end, one change at a time in the order of `picks`; returns statuses and outcome."""
    by_name = {trial.step.step: trial for trial in chosen}
    steps = [trial.step for trial in chosen]
    status = dict.fromkeys(by_name, "pending")
    judged: set[str] = set()
    for turn in range(10 * len(chosen) + 1):
        now = plan(steps, status, judged)
        status |= dict.fromkeys(now.skip, "skipped") | dict.fromkeys(now.block, "blocked")
        if now.failed or now.stuck:
            return status, "failed"
        running = [name for name, state in status.items() if state in {"running", "waiting_for_approval"}]
        acts = [*now.evaluate, *now.begin, *now.request, *running]
        if not acts:
            assert now.done, "no step may begin, and one has not ended"
            return status, "completed"
        name = acts[picks[turn % len(picks)] % len(acts)]
        trial = by_name[name]
        if name in now.evaluate:
            judged |= {name} if trial.condition else set()
            status[name] = "pending" if trial.condition else "skipped"
        elif name in now.begin:
            status[name] = "running"
        elif name in now.request:
            status[name] = "waiting_for_approval"
        elif trial.step.kind == APPROVAL:
            status[name] = "completed" if trial.succeeds else "blocked"
        else:
            status[name] = "completed" if trial.succeeds else "failed"
    raise AssertionError("the run did not come to an end")


@given(trials(), st.lists(st.integers(0, 99), min_size=1, max_size=40))
@settings(max_examples=300, deadline=None)
def test_every_step_ends_in_the_status_that_its_needs_give_it(chosen: list[Trial], picks: list[int]) -> None:
    status, outcome = executed(chosen, picks)
    steps = [trial.step for trial in chosen]
    if outcome == "failed":
        fatal = [one.step for one in steps if status[one.step] == "failed" and fails_run(one, steps)]
        assert fatal or "blocked" in status.values()
        return
    assert set(status.values()) <= {"completed", "failed", "skipped"}
    for trial in chosen:
        step, accepted = trial.step, [status[need] in trial.step.accept for need in trial.step.needs]
        match status[step.step]:
            case "skipped":
                assert not all(accepted) or not trial.condition
            case ended:
                assert all(accepted), "a step ran though a need of it had a status that it does not accept"
                assert trial.condition
                assert ended == ("completed" if trial.succeeds else "failed")
        if status[step.step] == "failed" and not step.optional:
            others = [other for other in steps if step.step in other.needs]
            assert others
            assert all("failed" in other.accept for other in others)


@given(trials(), st.lists(st.integers(0, 99), min_size=1, max_size=40), st.lists(st.integers(0, 99), min_size=1))
@settings(max_examples=150, deadline=None)
def test_the_order_in_which_steps_end_changes_no_status_of_a_run_that_completes(
    chosen: list[Trial], one: list[int], other: list[int]
) -> None:
    first, second = executed(chosen, one), executed(chosen, other)
    assert first[1] == second[1]
    if first[1] == "completed":
        assert first[0] == second[0]
