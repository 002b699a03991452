"""Tokens and prices of calls to models, recorded with the ends of the attempts that made them."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from backend.common.clock import utc_day
from backend.common.secrets import Secrets
from backend.services.model_usage import sql
from backend.services.model_usage.sql import UsageSumRow
from backend.settings import ModelPrice, ModelProvider
from backend.storage.tables.model_usage import ModelUsageRow
from tests.services.runtime.conftest import RuntimeWorld, agent_step, gate, manifest
from tests.support.openai_server import OpenAIServer, Reply, ToolCall
from tests.support.poll import until
from workflow_api.v1 import runs_pb2

SECRETS = Secrets({"ours": "env:OURS"}, {"OURS": "sk-planted-9b2e61"})
PRICED = "openai:ours-1"
PRICES = {PRICED: ModelPrice(Decimal(2), Decimal(10), Decimal("0.5"))}


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    server = OpenAIServer()
    yield server
    server.close()


@pytest.fixture
def asking(idle_world: RuntimeWorld, server: OpenAIServer, tmp_path: Any) -> Iterator[RuntimeWorld]:
    runtime = idle_world.new_runtime(
        tmp_path / "data",
        secrets=SECRETS,
        models={"openai": ModelProvider("ours", server.base_url)},
        model_prices=PRICES,
    )
    runtime.start()
    yield idle_world
    runtime.stop()


def agent(world: RuntimeWorld, name: str = "asker", **fields: Any) -> None:
    declared = {"kind": "Agent", "name": name, "type": "llm", "model": PRICED, "instructions": "Be brief."}
    world.apply(json.dumps(declared | fields))


def recorded(world: RuntimeWorld, run_id: str) -> list[ModelUsageRow]:
    rows = (ModelUsageRow(*row) for row in world.dump("model_usage"))
    return sorted(
        (row for row in rows if row.run_id == run_id), key=lambda row: (row.step, row.item_index, row.attempt)
    )


def sums(world: RuntimeWorld, run_id: str) -> tuple[int, int, int]:
    row = world.row(run_id)
    return row.model_calls, row.input_tokens, row.output_tokens


def test_a_completed_step_has_its_tokens_and_their_price(asking: RuntimeWorld, server: OpenAIServer) -> None:
    call = Reply(calls=(ToolCall("read_file", {"path": "write/notes/a.txt"}),), tokens=(100, 20, 40))
    server.will(call, Reply("It says one.", tokens=(200, 30, 0)))
    agent(asking, tools=["files"])
    steps = [agent_step("write", "writer"), agent_step("ask", "asker", "write")]
    run_id = asking.run("Priced", steps, input_text="one")
    assert asking.until_ended(run_id).status == "completed"
    (row,) = recorded(asking, run_id)
    assert row._replace(at=0) == ModelUsageRow(run_id, "ask", -1, 1, PRICED, 0, 2, 300, 50, 40, 520 + 20 + 500)
    assert sums(asking, run_id) == (2, 300, 50)
    usage = asking.get(run_id).usage
    assert usage == runs_pb2.RunUsage(model_calls=2, input_tokens=300, output_tokens=50)


def test_a_run_without_models_has_zeros(asking: RuntimeWorld) -> None:
    run_id = asking.run("Without", [agent_step("write", "writer")], input_text="one")
    asking.until_ended(run_id)
    run = asking.get(run_id)
    assert run.HasField("usage")
    assert run.usage == runs_pb2.RunUsage()


def test_an_unknown_model_has_tokens_and_no_price(asking: RuntimeWorld) -> None:
    agent(asking, model="openai:nobody-sells-this")
    run_id = asking.run("Unpriced", [agent_step("ask", "asker")])
    asking.until_ended(run_id)
    (row,) = recorded(asking, run_id)
    assert (row.input_tokens, row.output_tokens, row.cost_microusd) == (120, 45, None)
    (day,) = days(asking)
    assert (day.cost_microusd, day.unpriced_calls) == (0, 1)


def test_a_known_model_has_the_price_of_the_offline_list(asking: RuntimeWorld, server: OpenAIServer) -> None:
    server.will(Reply("x", tokens=(1000, 100, 0)))
    agent(asking, model="openai:gpt-4o")
    run_id = asking.run("Listed", [agent_step("ask", "asker")])
    asking.until_ended(run_id)
    (row,) = recorded(asking, run_id)
    assert row.cost_microusd == 2_500 + 1_000


def test_failed_attempts_and_retries_count_too(asking: RuntimeWorld, server: OpenAIServer) -> None:
    agent(asking, tools=["files"])
    call = Reply(calls=(ToolCall("list_files", {}),), tokens=(10, 1, 0))
    server.will(call, Reply(status=500, message="broken"), call, Reply("done", tokens=(30, 3, 0)))
    run_id = asking.run("Retried", [agent_step("ask", "asker", retry={"attempts": 2, "backoff_seconds": 0})])
    assert asking.until_ended(run_id).status == "completed"
    assert [(row.attempt, row.model_calls, row.input_tokens) for row in recorded(asking, run_id)] == [
        (1, 1, 10),
        (2, 2, 40),
    ]
    assert sums(asking, run_id) == (3, 50, 5)


def test_a_cancelled_attempt_counts_what_was_answered(asking: RuntimeWorld, server: OpenAIServer) -> None:
    agent(asking, tools=["files"])
    call = Reply(calls=(ToolCall("list_files", {}),), tokens=(10, 1, 0))
    server.will(call, Reply("late", delay=60))
    run_id = asking.run("Cancelled", [agent_step("ask", "asker")])
    until(lambda: len(server.requests) == 2, "the second call")
    asking.cancel(run_id)
    assert asking.until_ended(run_id).status == "cancelled"
    until(lambda: sums(asking, run_id) == (1, 10, 1), "the recorded use")
    assert [row.cost_microusd for row in recorded(asking, run_id)] == [30]


def test_items_of_a_fan_out_count_each(asking: RuntimeWorld) -> None:
    agent(asking)
    step = agent_step("ask", "asker", for_each="[1, 2, 3]", max_parallel=2)
    run_id = asking.run("Fanned", [step])
    assert asking.until_ended(run_id).status == "completed"
    assert [row.item_index for row in recorded(asking, run_id)] == [0, 1, 2]
    assert sums(asking, run_id) == (3, 360, 135)


def test_a_streamed_answer_counts_its_tokens(asking: RuntimeWorld) -> None:
    agent(asking, stream=True)
    run_id = asking.run("Streamed", [agent_step("ask", "asker")])
    assert asking.until_ended(run_id).status == "completed"
    assert sums(asking, run_id) == (1, 120, 45)


def test_hostile_numbers_of_a_provider_are_bounded(asking: RuntimeWorld, server: OpenAIServer) -> None:
    server.will(Reply("x", tokens=(2**40, 7, 2**41)))
    agent(asking)
    run_id = asking.run("Hostile", [agent_step("ask", "asker")])
    assert asking.until_ended(run_id).status == "completed"
    assert sums(asking, run_id) == (1, 10**9, 7)


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_a_fraction_of_a_token_is_cut_off(asking: RuntimeWorld, server: OpenAIServer) -> None:
    server.will(Reply("x", tokens=(7.5, 2, 0)))  # type: ignore[arg-type]  # no whole number
    agent(asking)
    run_id = asking.run("Fraction", [agent_step("ask", "asker")])
    row = asking.until_ended(run_id)
    assert row.status == "completed", row.error_message
    assert asking.get(run_id).usage == runs_pb2.RunUsage(model_calls=1, input_tokens=7, output_tokens=2)


def days(world: RuntimeWorld) -> list[sql.NamedDayRow]:
    return world.services.database.read(
        lambda tx: sql.days(tx, key_id=None, since=0, until=10**6, after=None, limit=100)
    )


def test_days_add_up_runs_by_key_workflow_and_model(asking: RuntimeWorld) -> None:
    agent(asking)
    first = asking.run("Added", [agent_step("ask", "asker")])
    asking.until_ended(first)
    second = asking.started("Added", idempotency_key="second")
    asking.until_ended(second)
    (day,) = days(asking)
    assert day.day == utc_day(asking.clock())
    assert (day.key_id, day.workflow_name, day.model) == (asking.key, "Added", PRICED)
    assert (day.model_calls, day.input_tokens, day.output_tokens, day.cost_microusd) == (2, 240, 90, 2 * 690)


def test_children_count_for_themselves_and_are_added_apart(asking: RuntimeWorld) -> None:
    agent(asking)
    asking.workflows |= asking.apply(manifest("Child", [agent_step("ask", "asker")]))
    run_id = asking.run("Parent", [agent_step("ask", "asker"), {"step": "child", "workflow": "Child"}])
    assert asking.until_ended(run_id).status == "completed"
    own, all_of_it = asking.services.database.read(
        lambda tx: (sql.run_sums(tx, run_id), sql.run_sums_with_children(tx, run_id))
    )
    assert own == UsageSumRow(1, 120, 45, 0, 690, 0)
    assert all_of_it == UsageSumRow(2, 240, 90, 0, 1380, 0)
    assert sums(asking, run_id) == (1, 120, 45)


def test_a_resumed_run_counts_nothing_for_reused_steps(asking: RuntimeWorld, server: OpenAIServer) -> None:
    agent(asking)
    agent(asking, "other")
    server.will(Reply("one"), Reply(status=401, message="no"), Reply("two", tokens=(7, 1, 0)))
    run_id = asking.run("Resumed", [agent_step("ask", "asker"), agent_step("then", "other", "ask")])
    assert asking.until_ended(run_id).status == "failed"
    resumed = asking.runs(
        "ResumeRun", runs_pb2.ResumeRunRequest(run_id=run_id, idempotency_key="resumed")
    ).run.summary.run_id
    assert asking.until_ended(resumed).status == "completed"
    assert sums(asking, resumed) == (1, 7, 1)


def test_an_erasure_keeps_the_numbers(asking: RuntimeWorld) -> None:
    agent(asking)
    run_id = asking.run("Erased", [agent_step("ask", "asker")])
    asking.until_ended(run_id)
    before = recorded(asking, run_id)
    asking.erase(run_id)
    assert asking.row(run_id).data_purged_at is not None
    assert recorded(asking, run_id) == before
    assert asking.get(run_id).usage.input_tokens == 120


def test_past_a_budget_of_tokens_the_step_fails_and_is_not_retried(asking: RuntimeWorld, server: OpenAIServer) -> None:
    agent(asking, tools=["files"])
    server.will(Reply(calls=(ToolCall("list_files", {}),), tokens=(90, 20, 0)), Reply("never"))
    step = agent_step("ask", "asker", retry={"attempts": 3, "backoff_seconds": 0})
    run_id = asking.run("Bounded", [step], workflow={"budget": {"tokens": 100}})
    row = asking.until_ended(run_id)
    assert (row.status, len(server.requests)) == ("failed", 1)
    assert row.error_message == (
        "Step 'ask' failed: the run's budget of 100 tokens is used up: its steps have used 110"
    )
    assert asking.steps(run_id)["ask"].attempt == 1
    assert sums(asking, run_id) == (1, 90, 20)


def test_a_budget_of_cost_holds_over_steps_and_segments(asking: RuntimeWorld, server: OpenAIServer) -> None:
    agent(asking)
    steps = [agent_step("ask", "asker"), gate("look", "ask"), agent_step("again", "asker", "look")]
    run_id = asking.run("Costly", steps, workflow={"budget": {"cost": 0.0005}})
    asking.until_status(run_id, "waiting_for_approval")
    asking.decide(asking.approvals(run_id)["look"], True)
    row = asking.until_ended(run_id)
    assert row.error_message == (
        "Step 'again' failed: the run's budget of 0.0005 US dollars is used up: its steps have used 0.00069"
    )
    assert len(server.requests) == 1


def test_the_same_attempt_is_recorded_once(asking: RuntimeWorld) -> None:
    agent(asking)
    run_id = asking.run("Once", [agent_step("ask", "asker")])
    asking.until_ended(run_id)
    usage = sql.AttemptUsage("ask", -1, 1, PRICED, 1, 120, 45, 0, 690)
    asking.services.database.write(lambda tx: sql.record(tx, run_id, asking.clock(), [usage]))
    assert sums(asking, run_id) == (1, 120, 45)
    assert days(asking)[0].model_calls == 1
