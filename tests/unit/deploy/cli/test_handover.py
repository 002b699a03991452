import json
from pathlib import Path

import pypdf
import pytest

from tests.unit.deploy.fake_backend import FakeBackend, command
from workflow_api.v1 import keys_pb2, options_pb2, webhooks_pb2, workflows_pb2

KEY_ID = "ak_0123456789ab"
URL = "https://flows.example.org"


@pytest.fixture
def key(backend: FakeBackend) -> keys_pb2.KeyRecord:
    key = keys_pb2.KeyRecord(state="active", description="Nightly invoices")
    key.key.key_id = KEY_ID
    key.key.name = "billing | <b>ÿ Ελλάδα</b>"
    key.key.scopes.extend([options_pb2.SCOPE_RUNS_CREATE, options_pb2.SCOPE_RUNS_READ])
    key.key.workflow_access.mode = keys_pb2.WorkflowAccess.MODE_ALL_ACTIVE
    key.key.expires_at.FromJsonString("2026-12-24T00:00:00Z")
    key.key.rate_limit_rpm = 61
    key.key.daily_run_quota = 102
    key.key.max_concurrent_runs = 13
    backend.answers["GetKey"] = key
    backend.answers["ListWebhooks"] = webhooks_pb2.ListWebhooksResponse()
    workflows = [workflows_pb2.Workflow(workflow_id=f"wf_{n}", name=f"Flow {n}") for n in (1, 2)]
    backend.answers["GetWorkflowDefinition"] = workflows_pb2.WorkflowDefinition(definition="{}")
    backend.answers["ListWorkflows"] = workflows_pb2.ListWorkflowsResponse(items=workflows)
    return key


def page(backend: FakeBackend, *options: str) -> str:
    shown = command("keys", "handover", KEY_ID, "--url", URL, *options, "--grpc", backend.address)
    assert shown.code == 0, shown.err
    return shown.out


def test_the_page_has_address_limits_scopes_and_workflows_of_the_key(
    backend: FakeBackend, key: keys_pb2.KeyRecord
) -> None:
    key.allowed_hours.start_hour, key.allowed_hours.end_hour = 8, 18
    key.source_allow_list.append("10.0.0.0/8")
    text = page(backend)
    for part in (
        f"{URL}/api/v1",
        KEY_ID,
        "2026-12-24 00:00 UTC",
        "61 a minute",
        "102 a UTC day, 13 at one time",
        "08:00 to 18:00 UTC",
        "10.0.0.0/8",
        "| runs:create | start and cancel runs |",
        "| Flow 1 | wf_1 |",
        "| 403 | outside_time_window | It is not 08:00 to 18:00 UTC. |",
    ):
        assert part in text
    assert "outputs:read" not in text
    assert "run.outputs" not in text


@pytest.mark.parametrize("language", ["bash", "python", "typescript"])
def test_the_page_starts_a_run_in_each_language(backend: FakeBackend, key: keys_pb2.KeyRecord, language: str) -> None:
    key.key.scopes.append(options_pb2.SCOPE_OUTPUTS_READ)
    snippets = page(backend).split(f"```{language}\n")[1:]
    last = snippets[-1].partition("```")[0]
    assert "wf_1" in last
    assert "order-1" in last
    assert language == "bash" or 'run.outputs.download("made")' in last


def test_a_key_of_named_workflows_has_only_these_on_its_page(backend: FakeBackend, key: keys_pb2.KeyRecord) -> None:
    key.key.workflow_access.mode = keys_pb2.WorkflowAccess.MODE_EXPLICIT
    key.key.workflow_access.workflow_ids.append("wf_2")
    text = page(backend)
    assert "Flow 2" in text
    assert "Flow 1" not in text
    assert "/workflows/wf_2/runs" in text


def test_text_of_a_key_is_no_markup_of_the_page(backend: FakeBackend, key: keys_pb2.KeyRecord) -> None:
    key.description = "[a](https://evil.example) `x`\n# Heading"
    lines = page(backend).splitlines()
    assert "# Access to the workflow API: billing \\| \\<b\\>ÿ Ελλάδα\\</b\\>" in lines
    assert "\\[a\\](https://evil.example) \\`x\\` \\# Heading" in lines


def test_the_page_names_webhooks_with_their_messages(backend: FakeBackend, key: keys_pb2.KeyRecord) -> None:
    hook = webhooks_pb2.Webhook(url="https://shop.example.org/hook", state="active")
    hook.events.append(webhooks_pb2.WEBHOOK_EVENT_RUN_ENDED)
    backend.answers["ListWebhooks"] = webhooks_pb2.ListWebhooksResponse(items=[hook])
    assert "| https://shop.example.org/hook | active | run.ended |" in page(backend)


def test_the_first_calls_have_what_the_workflow_requires(backend: FakeBackend, key: keys_pb2.KeyRecord) -> None:
    declared = [
        {"name": "rows", "type": "integer", "required": True},
        {"name": "kind", "type": "string", "required": True, "enum": ["it's", "other"]},
        {"name": "day", "type": "string"},
    ]
    definition = json.dumps({"parameters": declared})
    backend.answers["GetWorkflowDefinition"] = workflows_pb2.WorkflowDefinition(definition=definition)
    text = page(backend)
    assert """"parameters": {"rows": 1, "kind": "it'\\''s"}}'""" in text
    assert """parameters={'rows': 1, 'kind': "it's"}""" in text
    assert """parameters: {"rows": 1, "kind": "it's"},""" in text


def test_a_revoked_key_is_said_to_be_useless(backend: FakeBackend, key: keys_pb2.KeyRecord) -> None:
    key.state = "revoked"
    assert "revoked: the key does not work any more" in page(backend)


def test_a_pdf_has_the_text_of_the_page_as_it_is(backend: FakeBackend, key: keys_pb2.KeyRecord, tmp_path: Path) -> None:
    key.description = "#panic() $x$ *bold*"
    file = tmp_path / "billing.pdf"
    assert "billing.pdf is written" in page(backend, "--out", str(file))
    text = "\n".join(sheet.extract_text() for sheet in pypdf.PdfReader(file).pages)
    for part in ("#panic() $x$ *bold*", "Ελλάδα", f"{URL}/api/v1", "too_many_active_runs", "Flow 2"):
        assert part in text


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--url", "flows.example.org"), "--url"),
        (("--url", "https://user:pw@flows.example.org"), "--url"),
        (("--url", URL, "--out", "page.html"), "--out"),
    ],
)
def test_an_address_or_file_that_does_not_fit_is_refused(
    backend: FakeBackend, options: tuple[str, ...], named: str
) -> None:
    refused = command("keys", "handover", KEY_ID, *options, "--grpc", backend.address)
    assert refused.code == 2
    assert named in refused.err
    assert not backend.requests
