"""Pages of the use of models."""

import pytest

from contract.refusals import Refusal
from tests.unit.console.seen import MemoryServices, answered, html
from workflow_api.v1 import model_usage_pb2

USE = model_usage_pb2.ModelUse(
    model_calls=3, input_tokens=1_000, output_tokens=4, cached_tokens=1, cost_microusd=1_500, unpriced_calls=1
)


def test_a_runs_page_has_the_sum_with_children_apart_and_each_step() -> None:
    step = model_usage_pb2.StepModelUsage(step="ask", model="openai:<b>", attempts=2, use=USE)
    usage = model_usage_pb2.RunModelUsage(own=USE, with_children=USE, steps=[step])
    services = MemoryServices({"ModelUsageService/GetRunModelUsage": usage})
    page = html(answered(services, "GET", "/runs/{run_id}/usage", {"run_id": "run_1"}))
    assert "With its children" in page
    assert "0.001500 USD, and 1 call without a known price" in page
    assert "openai:&lt;b&gt;" in page


def test_days_are_added_up_by_day_workflow_key_and_model() -> None:
    row = model_usage_pb2.ModelUsageDay(key_id="ak_1", workflow_id="wf_1", model="openai:x", use=USE)
    listed = model_usage_pb2.ListModelUsageDaysResponse(items=[row, row])
    services = MemoryServices({"ModelUsageService/ListModelUsageDays": listed})
    page = html(answered(services, "GET", "/usage/models"))
    assert "2,000" in page
    assert '<a href="/keys/ak_1/models">ak_1</a>' in page


def test_a_deleted_key_has_its_use_and_an_unknown_one_is_refused() -> None:
    row = model_usage_pb2.ModelUsageDay(key_id="ak_1", workflow_id="wf_1", model="openai:x", use=USE)
    services = MemoryServices(
        {
            "KeysService/GetKey": Refusal("not_found"),
            "ModelUsageService/ListModelUsageDays": model_usage_pb2.ListModelUsageDaysResponse(items=[row]),
        }
    )
    page = html(answered(services, "GET", "/keys/{key_id}/models", {"key_id": "ak_1"}))
    assert "Use of models by ak_1" in page
    assert "The key is deleted" in page
    services.answers["ModelUsageService/ListModelUsageDays"] = model_usage_pb2.ListModelUsageDaysResponse()
    with pytest.raises(Refusal):
        answered(services, "GET", "/keys/{key_id}/models", {"key_id": "ak_2"})
