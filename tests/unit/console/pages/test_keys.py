import re
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from console.pages import keys
from console.routes import PAGES
from console.visit import ADMINISTRATORS, Redirect
from contract.refusals import Refusal
from contract.times import to_timestamp
from tests.unit.console.recorded_services import (
    KEY_ID,
    RecordedServices,
    answered,
    invalid,
    key_record,
    pages_in,
    viewed,
)
from tests.unit.console.rendered import Fields, page_of
from tests.unit.console.seen import MemoryServices, html
from tests.unit.console.seen import answered as seen_answered
from workflow_api.v1.keys_pb2 import (
    ApiKey,
    DeleteKeyResponse,
    KeyCredentials,
    ListKeysResponse,
    RotateKeyRequest,
    UpdateKeyRequest,
    WorkflowAccess,
)
from workflow_api.v1.usage_pb2 import CountCallsByKeyResponse, ListUsageRecordsResponse, UsageRecord
from workflow_api.v1.webhooks_pb2 import ListWebhooksResponse, Webhook
from workflow_api.v1.workflows_pb2 import WORKFLOW_STATUS_DRAFT, ListWorkflowsResponse, Workflow

ONE = "/keys/{key_id}"
NAMES = {"key_id": KEY_ID}
FORM = {
    "name": ["ware <b>house</b>"],
    "description": ["nightly"],
    "scopes": ["runs:create", "outputs:read"],
    "workflows": ["listed"],
    "workflow_ids": ["wf_1"],
    "source_allow_list": ["10.0.0.1/8"],
    "start_hour": ["8"],
    "end_hour": ["18"],
    "expires_days": ["30"],
    "rate_limit_rpm": ["61"],
    "daily_run_quota": ["101"],
    "max_concurrent_runs": ["11"],
}
SECRET = "ak_0123456789ab.secret-value"


def with_key(record: Any = None, **answers: Any) -> RecordedServices:
    return RecordedServices({"KeysService/GetKey": record or key_record(), **answers})


def test_only_administrators_see_keys() -> None:
    assert all(page.roles == ADMINISTRATORS for page in pages_in(keys))


def test_the_list_shows_every_key_with_its_last_use() -> None:
    services = RecordedServices(
        {
            "KeysService/ListKeys": ListKeysResponse(items=[key_record()]),
            "UsageService/ListUsageRecords": ListUsageRecordsResponse(
                items=[UsageRecord(at=to_timestamp(1_000_000_000_000), key_id=KEY_ID)]
            ),
        }
    )
    page = page_of(viewed(PAGES, "GET", "/keys", services))
    assert f'href="/keys/{KEY_ID}"' in page
    assert "Active" in page
    assert "2001-09-09 01:46:40 UTC" in page


def test_the_list_is_searched_by_name_id_and_description_and_filtered_by_state() -> None:
    other = key_record(key=ApiKey(key_id="ak_other", name="Shop"), description="Tills", state="revoked")
    services = RecordedServices({"KeysService/ListKeys": ListKeysResponse(items=[key_record(), other])})
    for query, found in (({"q": "TILL"}, ["Shop"]), ({"state": "active"}, ["warehouse"]), ({"q": "none"}, [])):
        view = viewed(PAGES, "GET", "/keys", services, query=query)
        assert [key.name for key, _ in view.context["rows"]] == found
        assert ("No key matches." in page_of(view)) is (found == [])


def test_the_list_has_pages_and_reads_the_last_use_of_those_alone_that_it_shows() -> None:
    records = [key_record(key=ApiKey(key_id=f"ak_{n:03}", name=f"Key {n % 2}")) for n in range(230)]

    def listed(asked: Any) -> ListKeysResponse:
        begin = int(asked.page_token or 0)
        end = begin + asked.page_size
        return ListKeysResponse(items=records[begin:end], next_page_token=str(end) if end < len(records) else None)

    services = MemoryServices(
        {
            "KeysService/ListKeys": listed,
            "UsageService/ListUsageRecords": ListUsageRecordsResponse(),
            "UsageService/CountCallsByKey": CountCallsByKeyResponse(),
        }
    )
    seen: list[str] = []
    cursor: dict[str, str] = {}
    for expected in (50, 50, 15):
        services.calls.clear()
        page = html(seen_answered(services, "GET", "/keys", query={"q": "key 1", **cursor}))
        shown = re.findall(r'<code title="(ak_\d+)', page)
        assert len(shown) == expected == len(services.asked("UsageService/ListUsageRecords"))
        (counted,) = services.asked("UsageService/CountCallsByKey")
        assert list(counted.key_ids) == shown
        seen += shown
        found = re.search(r'href="/keys\?q=key\+1&amp;cursor=(\d+)"', page)
        cursor = {"cursor": found[1]} if found else {}
    assert (len(set(seen)), cursor) == (115, {})


def test_a_new_key_comes_with_lines_that_use_it() -> None:
    made = KeyCredentials(record=key_record(), key_value=SECRET, external_id="ake_00")
    page = page_of(viewed(PAGES, "POST", "/keys", RecordedServices({"KeysService/CreateKey": made}), form=FORM))
    assert f"WORKFLOW_API_KEY={SECRET}\nWORKFLOW_API_EXTERNAL_ID=ake_00</code>" in page
    assert '"$WORKFLOW_API_URL/api/v1/me"</code>' in page
    assert "with Client.from_env() as client:" in page


def test_a_rotation_leads_from_the_new_secret_to_the_end_of_the_overlap() -> None:
    first = page_of(viewed(PAGES, "GET", f"{ONE}/rotate", with_key(), names=NAMES))
    assert '<li aria-current="step">\n<h2>Issue a new secret</h2>' in first
    rotating = key_record(state="rotating", rotating_until=to_timestamp(1_000_086_400_000))
    second = page_of(viewed(PAGES, "GET", f"{ONE}/rotate", with_key(rotating), names=NAMES))
    assert '<li aria-current="step">\n<h2>Give it to every caller</h2>' in second
    assert "data-countdown>2001-09-10 01:46:40 UTC</time>" in second
    assert "/end-overlap" in second
    assert "/end-overlap" not in first


def test_an_overlap_is_ended_early() -> None:
    services = with_key()
    services.answers["KeysService/EndKeyOverlap"] = key_record()
    answer = answered(PAGES, "POST", f"{ONE}/end-overlap", services, names=NAMES)
    assert isinstance(answer, Redirect)
    assert [asked.key_id for asked in services.asked_for("KeysService/EndKeyOverlap")] == [KEY_ID]


def test_an_empty_list_leads_to_the_first_key() -> None:
    services = RecordedServices({"KeysService/ListKeys": ListKeysResponse()})
    assert "No key yet." in page_of(viewed(PAGES, "GET", "/keys", services))


def test_the_name_of_a_key_is_escaped() -> None:
    hostile = '"><script>alert(1)</script>'
    record = key_record(key=ApiKey(key_id=KEY_ID, name=hostile), description=hostile, source_allow_list=[hostile])
    services = with_key(record, **{"KeysService/ListKeys": ListKeysResponse(items=[record])})
    for method, path in (("GET", "/keys"), ("GET", ONE)):
        assert "<script>alert" not in page_of(viewed(PAGES, method, path, services, names=NAMES))


def test_a_new_key_begins_with_the_defaults() -> None:
    fields = Fields(page_of(viewed(PAGES, "GET", "/keys/new", RecordedServices({}))))
    assert (fields.texts["rate_limit_rpm"], fields.texts["daily_run_quota"]) == ("60", "100")
    assert fields.chosen["expires_days"] == ["90"]
    assert "workflows" not in fields.chosen


def test_a_new_key_without_a_choice_of_workflows_is_refused_beside_the_field() -> None:
    services = RecordedServices({})
    view = viewed(PAGES, "POST", "/keys", services, form={**FORM, "workflows": [""], "workflow_ids": []})
    assert Fields(page_of(view)).errors == {"workflows": "must be chosen: all workflows, or only these"}
    assert not services.asked_for("KeysService/CreateKey")


def test_a_missing_value_is_called_by_the_label_of_its_field() -> None:
    refused = RecordedServices({"KeysService/CreateKey": invalid(("name", "is required"))})
    view = viewed(PAGES, "POST", "/keys", refused, form=FORM)
    assert Fields(page_of(view)).errors == {"name": "Name is required"}


def test_a_key_may_be_given_drafts_too_from_every_page_of_the_workflows() -> None:
    class Paged(RecordedServices):
        async def call(self, rpc: str, request: Any) -> Any:
            if rpc == "WorkflowsService/ListWorkflows" and not request.page_token:
                assert request.include_inactive
                first = Workflow(workflow_id="wf_0", name="Draft", status=WORKFLOW_STATUS_DRAFT)
                return ListWorkflowsResponse(items=[first], next_page_token="second")
            return await super().call(rpc, request)

    view = viewed(PAGES, "GET", "/keys/new", Paged({}))
    assert view.context["workflows"] == [("wf_0", "Draft (wf_0), draft"), ("wf_1", "Summary (wf_1)")]


def test_credentials_are_shown_once_on_creation() -> None:
    made = KeyCredentials(record=key_record(), key_value=SECRET, external_id="ake_00")
    services = RecordedServices({"KeysService/CreateKey": made})
    page = page_of(viewed(PAGES, "POST", "/keys", services, form=FORM))
    assert SECRET in page
    assert "ake_00" in page
    (asked,) = services.asked_for("KeysService/CreateKey")
    assert asked.allowed_hours.end_hour == 18
    assert asked.lifetime.ToSeconds() == 30 * 86_400


def test_a_problem_is_shown_at_its_field_with_the_typed_values() -> None:
    refusal = invalid(
        ("source_allow_list", "must be CIDR ranges"),
        ("allowed_hours.end_hour", "must be from 0 to 23"),
        ("odd", "is odd"),
    )
    view = viewed(PAGES, "POST", "/keys", RecordedServices({"KeysService/CreateKey": refusal}), form=FORM)
    page = page_of(view)
    fields = Fields(page)
    assert view.status == 400
    assert fields.errors == {"source_allow_list": "must be CIDR ranges", "start_hour": "must be from 0 to 23"}
    assert "is odd" in page
    assert fields.texts["name"] == FORM["name"][0]
    assert fields.texts["source_allow_list"] == "10.0.0.1/8"
    assert fields.chosen["scopes"] == FORM["scopes"]
    assert fields.chosen["workflow_ids"] == ["wf_1"]
    assert (fields.chosen["start_hour"], fields.chosen["end_hour"]) == (["8"], ["18"])


def test_a_number_that_cannot_be_read_makes_no_key() -> None:
    services = RecordedServices({})
    view = viewed(PAGES, "POST", "/keys", services, form={**FORM, "rate_limit_rpm": ["many"]})
    assert Fields(page_of(view)).errors == {"rate_limit_rpm": "must be a whole number"}
    assert not services.asked_for("KeysService/CreateKey")


def test_a_refusal_that_is_not_about_the_form_is_passed_on() -> None:
    services = RecordedServices({"KeysService/CreateKey": Refusal("runtime_unreachable")})
    with pytest.raises(Refusal, match="runtime_unreachable"):
        answered(PAGES, "POST", "/keys", services, form=FORM)


def test_a_key_tells_of_webhooks_that_the_service_paused() -> None:
    services = with_key(key_record())
    services.answers["WebhooksService/ListWebhooks"] = ListWebhooksResponse(
        items=[
            Webhook(webhook_id="wh_1", description="Ledger", state="paused", paused_reason="unreachable"),
            Webhook(webhook_id="wh_2", description="Shop", state="paused", paused_reason="requested"),
            Webhook(webhook_id="wh_3", description="Store", state="active"),
        ]
    )
    page = page_of(viewed(PAGES, "GET", ONE, services, names=NAMES))
    assert f'paused the webhook <a href="/keys/{KEY_ID}/webhooks/wh_1">Ledger</a>' in page
    assert "Shop" not in page
    assert "Store" not in page


def test_the_form_of_a_key_has_its_current_values() -> None:
    access = WorkflowAccess(mode=WorkflowAccess.MODE_EXPLICIT, workflow_ids=["wf_gone"])
    record = key_record()
    record.key.workflow_access.CopyFrom(access)
    fields = Fields(page_of(viewed(PAGES, "GET", ONE, with_key(record), names=NAMES)))
    assert fields.texts["name"] == "warehouse"
    assert fields.chosen["workflows"] == ["listed"]
    assert fields.chosen["workflow_ids"] == ["wf_gone"]


def test_an_edit_sends_changed_fields_and_redirects_to_the_key() -> None:
    services = with_key(**{"KeysService/UpdateKey": key_record()})
    form = {**FORM, "name": ["other"], "description": [""], "scopes": ["workflows:read"], "workflows": ["all"]}
    del form["workflow_ids"]
    form |= {"source_allow_list": [""], "start_hour": [""], "end_hour": [""], "expires_days": ["90"]}
    form |= {"rate_limit_rpm": ["60"], "daily_run_quota": ["100"], "max_concurrent_runs": ["10"]}
    form["form_hash"] = [Fields(page_of(viewed(PAGES, "GET", ONE, services, names=NAMES))).texts["form_hash"]]
    answer = answered(PAGES, "POST", ONE, services, names=NAMES, form=form)
    assert isinstance(answer, Redirect)
    assert answer.to == f"/keys/{KEY_ID}"
    assert services.asked_for("KeysService/UpdateKey") == [UpdateKeyRequest(key_id=KEY_ID, name="other")]


def test_the_id_of_a_key_is_quoted_where_an_edit_leads_to() -> None:
    services = with_key(**{"KeysService/RevokeKey": key_record()})
    answer = answered(PAGES, "POST", f"{ONE}/revoke", services, names={"key_id": "a/b ?"}, form={"sure": ["yes"]})
    assert isinstance(answer, Redirect)
    assert answer.to == "/keys/a%2Fb%20%3F"


def test_an_edit_does_not_undo_a_concurrent_change() -> None:
    shown = Fields(page_of(viewed(PAGES, "GET", ONE, with_key(), names=NAMES)))
    services = with_key(key_record(source_allow_list=["10.0.0.0/8"]))
    view = viewed(PAGES, "POST", ONE, services, names=NAMES, form={**FORM, "form_hash": [shown.texts["form_hash"]]})
    fields = Fields(page_of(view))
    assert "Somebody else changed this meanwhile." in page_of(view)
    # As it is now: sent once more, the form changes nothing.
    assert fields.texts["name"] == key_record().key.name != FORM["name"][0]
    assert fields.texts["form_hash"] != shown.texts["form_hash"]
    assert not services.asked_for("KeysService/UpdateKey")


def test_a_rotation_asks_for_the_overlap_that_was_chosen() -> None:
    services = RecordedServices({"KeysService/RotateKey": KeyCredentials(record=key_record(), key_value=SECRET)})
    page = page_of(viewed(PAGES, "POST", f"{ONE}/rotate", services, names=NAMES, form={"overlap_hours": ["72"]}))
    assert SECRET in page
    assert "External id" not in page
    assert services.asked_for("KeysService/RotateKey") == [
        RotateKeyRequest(key_id=KEY_ID, overlap=Duration(seconds=72 * 3_600))
    ]


def test_an_overlap_that_is_no_number_rotates_nothing() -> None:
    services = with_key()
    view = viewed(PAGES, "POST", f"{ONE}/rotate", services, names=NAMES, form={"overlap_hours": ["a day"]})
    assert view.status == 400
    assert "must be a whole number" in page_of(view)
    assert not services.asked_for("KeysService/RotateKey")


def test_a_new_external_id_is_shown_without_the_secret() -> None:
    made = KeyCredentials(record=key_record(), external_id="ake_11")
    services = RecordedServices({"KeysService/IssueExternalId": made})
    page = page_of(viewed(PAGES, "POST", f"{ONE}/external-id", services, names=NAMES))
    assert "ake_11" in page
    assert "Bearer value" not in page


@pytest.mark.parametrize(("state", "may_delete"), [("active", False), ("expired", False), ("revoked", True)])
def test_only_a_revoked_key_may_be_deleted(state: str, may_delete: bool) -> None:
    page = page_of(viewed(PAGES, "GET", ONE, with_key(key_record(state=state)), names=NAMES))
    assert (f'action="/keys/{KEY_ID}/delete"' in page) is may_delete
    assert (f'action="/keys/{KEY_ID}/revoke"' in page) is not may_delete


def test_irreversible_actions_ask_for_confirmation() -> None:
    page = page_of(viewed(PAGES, "GET", ONE, with_key(), names=NAMES))
    assert 'data-confirm="Revoke this key?' in page


def test_revoking_redirects_to_the_key_and_deleting_to_the_list() -> None:
    services = with_key(
        **{"KeysService/RevokeKey": key_record(state="revoked"), "KeysService/DeleteKey": DeleteKeyResponse()}
    )
    revoked = answered(PAGES, "POST", f"{ONE}/revoke", services, names=NAMES)
    deleted = answered(PAGES, "POST", f"{ONE}/delete", services, names=NAMES)
    assert isinstance(revoked, Redirect)
    assert isinstance(deleted, Redirect)
    assert (revoked.to, deleted.to) == (f"/keys/{KEY_ID}", "/keys")


@pytest.mark.parametrize("action", ["rotate", "external-id", "delete"])
def test_a_refused_action_is_reported_on_the_page_of_the_key(action: str) -> None:
    refusal = invalid(("key_id", "must name another key"))
    rpcs = ("RotateKey", "IssueExternalId", "DeleteKey")
    for state in ("active", "revoked"):
        services = with_key(key_record(state=state), **{f"KeysService/{rpc}": refusal for rpc in rpcs})
        form = {"overlap_hours": ["24"]} if action == "rotate" else {}
        view = viewed(PAGES, "POST", f"{ONE}/{action}", services, names=NAMES, form=form)
        assert view.status == 400
        assert page_of(view).count("must name another key") == 1
