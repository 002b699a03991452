import asyncio
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from console.pages import audit, deployment, people, usage
from console.rendering.times import DAY_MS, HOUR_MS, now_ms
from console.routes import PAGES
from console.visit import ADMINISTRATORS, ONLOOKERS, FileDownload, Page, PageResult, Redirect
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
from workflow_api.v1.audit_pb2 import AuditRecord, ListAuditRecordsRequest, ListAuditRecordsResponse
from workflow_api.v1.deployment_pb2 import Deployment, Licence, UpdateDeploymentRequest
from workflow_api.v1.reviews_pb2 import APPROVAL_STATE_APPROVED, Decision, ListAllDecisionsResponse, RunDecision
from workflow_api.v1.usage_pb2 import ListUsageHoursResponse, ListUsageRecordsResponse, UsageHour, UsageRecord
from workflow_api.v1.users_pb2 import (
    ROLE_ADMINISTRATOR,
    ROLE_APPROVER,
    ROLE_OPERATOR,
    ChosenWorkflows,
    CreateUserRequest,
    ListUsersResponse,
    SetUserRoleRequest,
    User,
    UserPassword,
)
from workflow_api.v1.workflows_pb2 import ListWorkflowsResponse, Workflow

HOSTILE = '"><script>alert(1)</script>'
RECORD = Deployment(
    deployment_id="dep_1",
    release="1.0.139",
    governed=True,
    api_enabled=True,
    licence=Licence(state="active"),
    retention=Duration(seconds=90 * 86_400),
)
PEOPLE = [
    User(name="ada", role=ROLE_ADMINISTRATOR),
    User(name="bob", role=ROLE_APPROVER),
    User(name="cyd", role=ROLE_APPROVER, disabled=True),
]


@pytest.mark.parametrize("page", [page for module in (audit, deployment, people, usage) for page in pages_in(module)])
def test_only_administrators_open_administration_pages(page: Page) -> None:
    shown = page.method == "GET" and page.path in {"/deployment", "/deployment/health"}
    assert page.roles == (ONLOOKERS if shown else ADMINISTRATORS)


def usage_services(*calls: tuple[int, str], now: int) -> RecordedServices:
    hour = now - now % HOUR_MS
    return RecordedServices(
        {
            "KeysService/GetKey": key_record(),
            "UsageService/ListUsageHours": ListUsageHoursResponse(
                items=[
                    UsageHour(hour=to_timestamp(hour), method="GET", route="/me", status=status, calls=1)
                    for status, _ in calls
                ]
            ),
            "UsageService/ListUsageRecords": ListUsageRecordsResponse(
                items=[
                    UsageRecord(at=to_timestamp(now), key_id=KEY_ID, method="GET", status=s, reason=why)
                    for s, why in calls
                ]
            ),
        }
    )


def test_usage_shows_the_calls_as_a_chart_and_as_a_table() -> None:
    services = usage_services((200, ""), (429, "rate_limited"), now=now_ms())
    view = viewed(PAGES, "GET", "/usage", services, query={"window": "quarter"})
    page = page_of(view)
    assert "<svg" in page
    assert "2 calls in the last 90 days." in page
    assert [record.reason for record, _ in view.context["refusals"]] == ["rate_limited"]
    assert len(view.context["calls"]) == 2
    assert not services.asked_for("UsageService/ListUsageRecords")[0].HasField("key_id")


def test_truncated_counts_are_reported() -> None:
    now = now_ms()
    services = usage_services(now=now)
    count = UsageHour(hour=to_timestamp(now - now % HOUR_MS), method="GET", route="/me", status=200, calls=3)
    services.answers["UsageService/ListUsageHours"] = ListUsageHoursResponse(
        items=[count] * 10_000, next_page_token="more"
    )
    page = page_of(viewed(PAGES, "GET", "/usage", services))
    assert "At least 30,000 calls in the last 24 hours." in page
    assert "the oldest are omitted" in page


def test_usage_of_one_key_asks_for_that_key_alone() -> None:
    services = usage_services(now=now_ms())
    page = page_of(viewed(PAGES, "GET", "/keys/{key_id}/usage", services, names={"key_id": KEY_ID}))
    assert "Usage of warehouse" in page
    assert "No call in the last 24 hours." in page
    assert services.asked_for("UsageService/ListUsageHours")[0].key_id == KEY_ID
    assert services.asked_for("UsageService/ListUsageRecords")[0].key_id == KEY_ID


def test_a_refusal_of_a_key_is_explained_by_its_rules() -> None:
    services = usage_services((403, "forbidden"), now=now_ms())
    record = key_record(source_allow_list=["10.0.0.0/8"])
    record.key.expires_at.CopyFrom(to_timestamp(now_ms() + DAY_MS))
    refused = UsageRecord(
        at=to_timestamp(now_ms()), key_id=KEY_ID, method="GET", route="/me", status=403, address="192.0.2.1"
    )
    services.answers |= {
        "KeysService/GetKey": record,
        "DeploymentService/GetDeployment": Deployment(deployment_id="dep_1", governed=True, api_enabled=True),
        "UsageService/ListUsageRecords": ListUsageRecordsResponse(items=[refused]),
    }
    page = page_of(viewed(PAGES, "GET", "/keys/{key_id}/usage", services, names={"key_id": KEY_ID}))
    assert "192.0.2.1 is not in 10.0.0.0/8." in page


def counts_of(answer: PageResult) -> list[str]:
    """Returns the lines of a download."""
    assert isinstance(answer, FileDownload)

    async def whole() -> bytes:
        return b"".join([part async for part in answer.parts])

    return asyncio.run(whole()).decode().splitlines()


def test_counts_are_downloaded_as_csv_of_the_range_on_the_page() -> None:
    services = usage_services((200, ""), (403, "forbidden"), now=now_ms())
    head, *lines = counts_of(answered(PAGES, "GET", "/usage.csv", services))
    assert head == "hour,key_id,method,route,status,calls"
    assert [line.split(",")[2:] for line in lines] == [["GET", "/me", "200", "1"], ["GET", "/me", "403", "1"]]
    counts_of(answered(PAGES, "GET", "/usage.csv", services, query={"from": "2001-09-09", "to": "2001-09-09"}))
    asked = services.asked_for("UsageService/ListUsageHours")[-1]
    assert (asked.since, asked.until) == (to_timestamp(999_993_600_000), to_timestamp(1_000_080_000_000))


def test_the_csv_has_the_counts_of_every_page() -> None:
    services = usage_services((200, ""), now=now_ms())
    last = services.answers["UsageService/ListUsageHours"]
    assert isinstance(last, ListUsageHoursResponse)
    pages = [ListUsageHoursResponse(items=last.items, next_page_token="next"), last]

    class PagedServices(RecordedServices):
        async def call(self, rpc: str, request: Message) -> Any:
            await super().call(rpc, request)
            return pages[len(self.asked) - 1]

    paged = PagedServices({})
    head, *lines = counts_of(answered(PAGES, "GET", "/usage.csv", paged))
    assert (head.partition(",")[0], len(lines)) == ("hour", 2 * len(last.items))
    assert [asked.page_token for asked in paged.asked_for("UsageService/ListUsageHours")] == ["", "next"]


def test_a_range_that_is_none_is_a_problem_of_its_field() -> None:
    view = viewed(PAGES, "GET", "/usage", usage_services(now=now_ms()), query={"from": "2026-09-24", "to": ""})
    assert view.status == 400
    assert "must be two days in order" in Fields(page_of(view)).errors["from"]


def test_values_of_callers_are_escaped_in_usage() -> None:
    now = now_ms()
    services = usage_services((404, HOSTILE), now=now)
    services.answers["UsageService/ListUsageRecords"] = ListUsageRecordsResponse(
        items=[
            UsageRecord(
                at=to_timestamp(now),
                key_id=HOSTILE,
                method=HOSTILE,
                route=HOSTILE,
                address=HOSTILE,
                request_id=HOSTILE,
            )
        ]
    )
    assert "<script>alert" not in page_of(viewed(PAGES, "GET", "/usage", services))


def change_deployment(answer: Any = RECORD, shown: Deployment = RECORD, **typed: str) -> tuple[Any, RecordedServices]:
    before = RecordedServices({"DeploymentService/GetDeployment": shown})
    mark = Fields(page_of(viewed(PAGES, "GET", "/deployment", before))).texts["form_hash"]
    services = RecordedServices(
        {"DeploymentService/GetDeployment": RECORD, "DeploymentService/UpdateDeployment": answer}
    )
    present = {"governed": "yes", "api_enabled": "yes", "licence_state": "active", "retention_days": "90"}
    form = {name: [value] for name, value in {**present, **typed, "form_hash": mark}.items() if value != "no"}
    return answered(PAGES, "POST", "/deployment", services, form=form), services


def test_a_change_of_the_deployment_has_only_changed_fields() -> None:
    answer, services = change_deployment(governed="no", licence_state="hold", licence_reason="unpaid")
    assert isinstance(answer, Redirect)
    assert services.asked_for("DeploymentService/UpdateDeployment") == [
        UpdateDeploymentRequest(governed=False, licence_state="hold", licence_reason="unpaid")
    ]


def test_an_unchanged_deployment_is_not_written() -> None:
    answer, services = change_deployment()
    assert isinstance(answer, Redirect)
    assert not services.asked_for("DeploymentService/UpdateDeployment")


def test_a_problem_of_the_deployment_is_shown_at_its_field() -> None:
    refused, _ = change_deployment(invalid(("retention_days", "must be from 1 to 3650")), retention_days="0")
    unread, services = change_deployment(retention_days="ninety")
    assert Fields(page_of(refused)).errors == {"retention_days": "must be from 1 to 3650"}
    assert Fields(page_of(refused)).texts["retention_days"] == "0"
    assert Fields(page_of(unread)).errors == {"retention_days": "must be a whole number"}
    assert not services.asked_for("DeploymentService/UpdateDeployment")


def test_a_change_of_the_deployment_does_not_undo_a_concurrent_change() -> None:
    shown = Deployment(licence=Licence(state="hold"), retention=Duration(seconds=30 * 86_400))
    refused, services = change_deployment(shown=shown, retention_days="31")
    assert "Somebody else changed this meanwhile." in page_of(refused)
    assert not services.asked_for("DeploymentService/UpdateDeployment")


def people_services(**answers: Any) -> RecordedServices:
    users: dict[str, Any] = {"UsersService/ListUsers": ListUsersResponse(items=PEOPLE)}
    users["WorkflowsService/ListWorkflows"] = ListWorkflowsResponse(items=[Workflow(workflow_id="wf_1", name="Digest")])
    return RecordedServices({**users, **{f"UsersService/{rpc}": answer for rpc, answer in answers.items()}})


def test_every_other_user_may_be_disabled() -> None:
    page = page_of(viewed(PAGES, "GET", "/people", people_services()))
    assert 'action="/people/bob/disable"' in page
    assert 'action="/people/ada/disable"' not in page
    assert 'action="/people/cyd/disable"' not in page


def test_users_cannot_disable_themselves() -> None:
    services = people_services(DisableUser=PEOPLE[0])
    view = viewed(PAGES, "POST", "/people/{name}/disable", services, names={"name": "ada"})
    assert view.status == 400
    assert "You cannot disable yourself" in page_of(view)
    assert not services.asked_for("UsersService/DisableUser")


def test_disabling_a_user_redirects_to_the_list() -> None:
    services = people_services(DisableUser=PEOPLE[1])
    answer = answered(PAGES, "POST", "/people/{name}/disable", services, names={"name": "bob"})
    assert isinstance(answer, Redirect)
    assert services.asked_for("UsersService/DisableUser")[0].name == "bob"


def test_a_new_password_is_shown_once() -> None:
    made = UserPassword(user=User(name="dee", role=ROLE_APPROVER), password="correct <horse>")
    services = people_services(CreateUser=made, ResetUserPassword=made)
    added = viewed(PAGES, "POST", "/people", services, form={"name": ["dee"], "role": ["approver"], "scope": ["all"]})
    reset = viewed(PAGES, "POST", "/people/{name}/password", services, names={"name": "dee"})
    assert "correct &lt;horse&gt;" in page_of(added)
    assert "correct &lt;horse&gt;" in page_of(reset)
    assert services.asked_for("UsersService/CreateUser") == [CreateUserRequest(name="dee", role=ROLE_APPROVER)]


def test_a_role_is_changed_with_the_workflows_of_an_approver_alone() -> None:
    services = people_services(SetUserRole=PEOPLE[1])
    chosen = {"scope": ["chosen"], "workflow_ids": ["wf_1", "wf_2"]}
    for role in ("approver", "operator"):
        form = {"role": [role], **chosen}
        answer = answered(PAGES, "POST", "/people/{name}/role", services, names={"name": "bob"}, form=form)
        assert isinstance(answer, Redirect)
    assert services.asked_for("UsersService/SetUserRole") == [
        SetUserRoleRequest(name="bob", role=ROLE_APPROVER, decides_for=ChosenWorkflows(workflow_ids=["wf_1", "wf_2"])),
        SetUserRoleRequest(name="bob", role=ROLE_OPERATOR),
    ]


def test_ticked_workflows_are_never_taken_for_all() -> None:
    services = people_services(SetUserRole=PEOPLE[1])
    form = {"role": ["approver"], "scope": ["all"], "workflow_ids": ["wf_1"]}
    view = viewed(PAGES, "POST", "/people/{name}/role", services, names={"name": "bob"}, form=form)
    assert Fields(page_of(view)).errors == {"scope": "must be only these while any is ticked below"}
    assert not services.asked_for("UsersService/SetUserRole")


def test_an_approver_is_added_only_once_their_workflows_are_chosen() -> None:
    services = people_services()
    view = viewed(PAGES, "POST", "/people", services, form={"name": ["dee"], "role": ["approver"]})
    assert Fields(page_of(view)).errors == {"scope": "must be chosen for an approver: all workflows, or only these"}
    assert not services.asked_for("UsersService/CreateUser")


def test_a_refused_role_is_shown_at_its_field_with_what_was_chosen() -> None:
    services = people_services(SetUserRole=invalid(("role", "must be administrator for the last one")))
    form = {"role": ["viewer"], "scope": ["all"]}
    view = viewed(PAGES, "POST", "/people/{name}/role", services, names={"name": "ada"}, form=form)
    fields = Fields(page_of(view))
    assert view.status == 400
    assert fields.errors == {"role": "must be administrator for the last one"}
    assert fields.chosen["role"] == ["viewer"]


def test_a_problem_of_a_new_user_is_shown_at_its_field() -> None:
    services = people_services(CreateUser=invalid(("name", "must be shorter"), ("form", "there are 20 already")))
    page = page_of(viewed(PAGES, "POST", "/people", services, form={"name": [HOSTILE], "role": ["administrator"]}))
    fields = Fields(page)
    assert fields.errors == {"name": "must be shorter"}
    assert fields.chosen["role"] == ["administrator"]
    assert "there are 20 already" in page
    assert "<script>alert" not in page


def audit_view(query: dict[str, str], answer: Any = None) -> tuple[Any, RecordedServices]:
    services = RecordedServices({"AuditService/ListAuditRecords": answer or ListAuditRecordsResponse()})
    return viewed(PAGES, "GET", "/audit", services, query=query), services


def test_a_window_of_the_audit_includes_its_last_day() -> None:
    _, services = audit_view({"from": "1970-01-02", "to": "1970-01-02", "target": KEY_ID, "size": "200"})
    assert services.asked_for("AuditService/ListAuditRecords") == [
        ListAuditRecordsRequest(
            since=to_timestamp(DAY_MS), until=to_timestamp(2 * DAY_MS), target=KEY_ID, page_size=200
        )
    ]


def test_without_a_window_the_newest_records_are_shown() -> None:
    _, services = audit_view({})
    assert services.asked_for("AuditService/ListAuditRecords") == [ListAuditRecordsRequest()]


def test_the_next_page_of_the_audit_keeps_the_filters() -> None:
    record = AuditRecord(
        at=to_timestamp(1), actor="ada", action="key.edited", target=HOSTILE, details='{"n": 1, "s": "<b>"}'
    )
    view, _ = audit_view(
        {"target": "a&b", "from": "2026-01-01"}, ListAuditRecordsResponse(items=[record], next_page_token="c+/")
    )
    assert parse_qs(urlsplit(view.context["older"]).query) == {
        "target": ["a&b"],
        "from": ["2026-01-01"],
        "cursor": ["c+/"],
    }
    page = page_of(view)
    assert "<script>alert" not in page
    assert "s: <code>&lt;b&gt;</code>" in page


def test_a_record_is_a_sentence_about_a_person_with_its_code_beside_it() -> None:
    details = '{"name": "billing", "daily_run_quota": 200, "before": {"daily_run_quota": 100}}'
    record = AuditRecord(at=to_timestamp(1), actor="user:kim", action="key.edited", target="ak_1", details=details)
    page = page_of(audit_view({}, ListAuditRecordsResponse(items=[record]))[0])
    assert ">kim</a> changed the daily quota of runs from 100 to 200 of the key billing</td>" in page
    assert "<summary><code>key.edited</code></summary>" in page
    assert 'href="/audit?actor=user%3Akim"' in page
    assert 'href="/audit?action=key.edited"' in page


def test_the_audit_calls_workflows_and_approvals_by_their_names() -> None:
    records = [
        AuditRecord(
            at=to_timestamp(9_000),
            actor="user:kim",
            action="approval.approved",
            target="apr_1",
            details='{"run_id":"run_1"}',
        ),
        AuditRecord(
            at=to_timestamp(5_000),
            actor="user:kim",
            action="run.started",
            target="run_1",
            details='{"workflow_id":"wf_1"}',
        ),
    ]
    decision = Decision(approval_id="apr_1", title="Publish", state=APPROVAL_STATE_APPROVED)
    made = RunDecision(decision=decision, run_id="run_1", workflow_name="billing", comment="<fine>")
    services = RecordedServices(
        {
            "AuditService/ListAuditRecords": ListAuditRecordsResponse(items=records),
            "ReviewsService/ListAllDecisions": ListAllDecisionsResponse(items=[made]),
            "WorkflowsService/ListWorkflows": ListWorkflowsResponse(
                items=[Workflow(workflow_id="wf_1", name="billing")]
            ),
        }
    )
    page = page_of(viewed(PAGES, "GET", "/audit", services))
    run = '<a href="/runs/run_1">run_1</a>'
    assert f"approved “Publish” of billing, an approval of run {run}: “&lt;fine&gt;”" in page
    assert f"started the run {run} of workflow billing" in page
    (asked,) = services.asked_for("ReviewsService/ListAllDecisions")
    assert (asked.decided_since, asked.decided_before) == (to_timestamp(9_000), to_timestamp(9_001))


def test_every_filter_of_the_audit_is_in_its_address_and_in_those_of_exports() -> None:
    query = {"q": "a text", "actor": "user:ana", "action": "key.rotated", "target": "ak_1"}
    view, services = audit_view(query, ListAuditRecordsResponse(items=[AuditRecord(at=to_timestamp(1), actor="bo")]))
    assert services.asked_for("AuditService/ListAuditRecords") == [
        ListAuditRecordsRequest(search="a text", actor="user:ana", action="key.rotated", target="ak_1")
    ]
    page = page_of(view)
    assert 'href="/audit.csv?q=a+text&amp;actor=user%3Aana&amp;action=key.rotated&amp;target=ak_1"' in page
    assert 'href="/audit?q=a+text&amp;actor=bo&amp;action=key.rotated&amp;target=ak_1"' in page


def test_a_problem_of_a_window_is_shown_at_its_date() -> None:
    refused, _ = audit_view({"from": "2020-01-01"}, invalid(("since", "must be before until")))
    unread, services = audit_view({"to": "20260101"})
    assert Fields(page_of(refused)).errors["from"].startswith("must be less than 90 days before")
    assert Fields(page_of(unread)).errors == {"to": "must be a day such as 2026-09-24, from 0001-01-02 to 9999-12-30"}
    assert not services.asked
