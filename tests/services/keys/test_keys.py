"""The services of keys: the life cycle of a key and its bounds (contract 9.1, 9.6)."""

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from backend.common.clock import utc_day
from backend.common.waits import KeyChanges
from backend.services.dependencies import Services
from backend.services.keys import sql
from backend.services.keys.servicer import KeysServicer
from backend.services.runs.start import sql as start_sql
from contract.times import milliseconds_of, to_timestamp
from tests.services.calls import Caller, RefusedError
from tests.services.conftest import TestClock
from workflow_api.v1 import audit_pb2, caller_pb2, deployment_pb2, edge_pb2, keys_pb2, options_pb2, usage_pb2
from workflow_api_testing import TestBackend

READ = options_pb2.SCOPE_WORKFLOWS_READ
CREATE = options_pb2.SCOPE_RUNS_CREATE
DELETE = options_pb2.SCOPE_RUNS_DELETE
EXPLICIT = keys_pb2.WorkflowAccess.MODE_EXPLICIT
DAY_MS = 86_400_000


def hours(count: int) -> Duration:
    return Duration(seconds=count * 3_600)


def days(count: int) -> Duration:
    return hours(24 * count)


@pytest.fixture
def keys(backend: TestBackend) -> Caller:
    return Caller.of_backend(backend)


@pytest.fixture
def deployment(keys: Caller) -> Caller:
    return keys


def create(keys: Caller, **fields: Any) -> keys_pb2.KeyCredentials:
    request = keys_pb2.CreateKeyRequest(**({"name": "caller", "scopes": [READ]} | fields))
    answer: keys_pb2.KeyCredentials = keys("CreateKey", request)
    return answer


def mirrored(keys: Caller, key_id: str) -> edge_pb2.MirroredKey:
    mirror: edge_pb2.KeyMirror = keys("GetKeyMirror", edge_pb2.GetKeyMirrorRequest())
    return next(key for key in mirror.keys if key.key_id == key_id)


def sha256(value: str) -> bytes:
    return hashlib.sha256(value.encode()).digest()


@pytest.mark.parametrize(
    ("release", "bound"), [("1.0.138", False), ("1.0.99", False), ("1.0.139", True), ("1.1.0", True)]
)
def test_a_key_is_not_bound_to_a_release_that_does_not_serve_the_api(
    services: Services, release: str, bound: bool
) -> None:
    older = replace(services, release=release)
    keys = Caller(KeysServicer(older, KeyChanges()), keys_pb2.DESCRIPTOR.services_by_name["KeysService"])
    if bound:
        assert create(keys).key_value
        return
    with pytest.raises(RefusedError) as refused:
        create(keys)
    assert refused.value.reason == "invalid_request"
    assert refused.value.problems == {"deployment_id": f"must be of release 1.0.139 or later; this one is of {release}"}
    assert not keys("ListKeys", keys_pb2.ListKeysRequest()).items


def test_issued_credentials_have_the_contracts_form(keys: Caller) -> None:
    made = create(keys)
    key_id, _, secret = made.key_value.partition(".")
    assert key_id == made.record.key.key_id
    assert len(key_id) == 15
    assert key_id.startswith("ak_")
    assert int(key_id[3:], 16) >= 0
    assert 16 <= len(secret) <= 256
    assert len(made.external_id) == 36
    assert made.external_id.startswith("ake_")
    assert int(made.external_id[4:], 16) >= 0


def test_only_hashes_of_credentials_are_kept(keys: Caller, services: Services) -> None:
    made = create(keys)
    secret = made.key_value.partition(".")[2]
    mirror = mirrored(keys, made.record.key.key_id)
    assert mirror.secret_sha256 == sha256(secret)
    assert mirror.external_id_sha256 == sha256(made.external_id)
    audit = services.database.read(lambda tx: str(tx.connection.execute("SELECT * FROM audit_records", ()).fetchall()))
    stored = services.database.read(lambda tx: str(tx.connection.execute("SELECT * FROM api_keys", ()).fetchall()))
    for value in (secret, made.external_id):
        assert value not in audit + stored


def test_defaults_of_a_key_are_the_contracts(keys: Caller, clock: TestClock) -> None:
    key = create(keys).record.key
    assert (key.rate_limit_rpm, key.daily_run_quota, key.max_concurrent_runs) == (60, 100, 10)
    assert key.expires_at.ToMilliseconds() == clock.now + 90 * DAY_MS
    assert key.workflow_access.mode == keys_pb2.WorkflowAccess.MODE_ALL_ACTIVE


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"name": ""}, "name"),
        ({"name": "n" * 101}, "name"),
        ({"name": " \u00a0\u200b"}, "name"),
        ({"name": "two\nlines"}, "name"),
        ({"name": "\x1b[31mred"}, "name"),
        ({"name": "next\x85line"}, "name"),
        ({"description": "d" * 501}, "description"),
        ({"scopes": []}, "scopes"),
        ({"lifetime": days(31)}, "expires_days"),
        ({"lifetime": days(366)}, "expires_days"),
        ({"rate_limit_rpm": 0}, "rate_limit_rpm"),
        ({"rate_limit_rpm": 10_001}, "rate_limit_rpm"),
        ({"daily_run_quota": 0}, "daily_run_quota"),
        ({"daily_run_quota": 100_001}, "daily_run_quota"),
        ({"max_concurrent_runs": 101}, "max_concurrent_runs"),
        ({"daily_tokens": 0}, "daily_tokens"),
        ({"daily_tokens": 10**12 + 1}, "daily_tokens"),
        ({"daily_cost_microusd": -1}, "daily_cost_microusd"),
        ({"source_allow_list": ["10.0.0.1/8"]}, "source_allow_list"),
        ({"source_allow_list": ["somewhere"]}, "source_allow_list"),
        ({"source_allow_list": [f"10.0.{n}.0/24" for n in range(33)]}, "source_allow_list"),
        ({"allowed_hours": keys_pb2.AllowedHours(start_hour=8, end_hour=8)}, "allowed_hours"),
        ({"allowed_hours": keys_pb2.AllowedHours(start_hour=8, end_hour=24)}, "allowed_hours.end_hour"),
        ({"workflow_access": keys_pb2.WorkflowAccess(mode=EXPLICIT)}, "workflow_access.workflow_ids"),
        (
            {"workflow_access": keys_pb2.WorkflowAccess(mode=EXPLICIT, workflow_ids=[f"wf_{n}" for n in range(51)])},
            "workflow_access.workflow_ids",
        ),
        (
            {"workflow_access": keys_pb2.WorkflowAccess(mode=EXPLICIT, workflow_ids=["wf_unknown"])},
            "workflow_access.workflow_ids",
        ),
    ],
)
def test_a_property_out_of_bounds_is_refused_by_name_and_makes_no_key(
    keys: Caller, fields: dict[str, Any], problem: str
) -> None:
    with pytest.raises(RefusedError) as refused:
        create(keys, **fields)
    assert refused.value.reason == "invalid_request"
    assert problem in refused.value.problems
    assert not keys("ListKeys", keys_pb2.ListKeysRequest()).items


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "n" * 100, "description": "d" * 500},
        {"name": "é \u2713 \U0001f511"},
        {"lifetime": days(365)},
        {"rate_limit_rpm": 10_000, "daily_run_quota": 100_000, "max_concurrent_runs": 100},
        {"source_allow_list": [f"10.0.{n}.0/24" for n in range(31)] + ["2001:db8::/32"]},
        {"allowed_hours": keys_pb2.AllowedHours(start_hour=22, end_hour=6)},
        {"scopes": [READ, CREATE]},
    ],
)
def test_a_property_at_its_bound_is_accepted(keys: Caller, fields: dict[str, Any]) -> None:
    assert create(keys, **fields).record.state == "active"


def test_runs_create_brings_workflows_read_with_it_to_a_new_key(keys: Caller) -> None:
    made = create(keys, scopes=[CREATE])
    assert list(made.record.key.scopes) == [READ, CREATE]
    assert list(mirrored(keys, made.record.key.key_id).scopes) == [READ, CREATE]


def test_workflows_read_stays_with_an_edited_key_for_as_long_as_runs_create_does(keys: Caller) -> None:
    key_id = create(keys, scopes=[READ]).record.key.key_id

    def edited(*scopes: options_pb2.Scope.ValueType) -> list[int]:
        asked = keys_pb2.UpdateKeyRequest(key_id=key_id, scopes=keys_pb2.ScopeList(scopes=scopes))
        return list(keys("UpdateKey", asked).key.scopes)

    assert edited(CREATE) == [READ, CREATE]
    assert edited(DELETE, CREATE) == [READ, CREATE, DELETE]
    assert edited(DELETE) == [DELETE]


@pytest.mark.parametrize("name", ["", " ", "two\nlines", "\x7f"])
def test_an_edit_to_a_name_out_of_bounds_changes_nothing(keys: Caller, name: str) -> None:
    key_id = create(keys, name="before").record.key.key_id
    with pytest.raises(RefusedError) as refused:
        keys("UpdateKey", keys_pb2.UpdateKeyRequest(key_id=key_id, name=name))
    assert "name" in refused.value.problems
    assert keys("GetKey", keys_pb2.GetKeyRequest(key_id=key_id)).key.name == "before"


def test_a_key_named_before_names_were_bounded_keeps_working(keys: Caller, services: Services) -> None:
    key_id = create(keys).record.key.key_id
    name = "two\nlines"
    row = services.database.read(lambda tx: sql.get(tx, key_id, 0))
    assert row is not None
    services.database.write(lambda tx: sql.edit(tx, row, {"name": name}))
    edited = keys("UpdateKey", keys_pb2.UpdateKeyRequest(key_id=key_id, rate_limit_rpm=7))
    assert (edited.key.name, edited.key.rate_limit_rpm) == (name, 7)
    assert keys("GetMe", caller_pb2.GetMeRequest(), key_id=key_id).name == name


def test_rotation_keeps_the_old_secret_for_the_overlap_and_the_ids_for_good(keys: Caller, clock: TestClock) -> None:
    made = create(keys)
    key_id = made.record.key.key_id
    rotated = keys("RotateKey", keys_pb2.RotateKeyRequest(key_id=key_id, overlap=hours(1)))
    mirror = mirrored(keys, key_id)
    assert mirror.secret_sha256 == sha256(rotated.key_value.partition(".")[2])
    assert mirror.previous_secret_sha256 == sha256(made.key_value.partition(".")[2])
    assert mirror.previous_secret_expires_at.ToMilliseconds() == clock.now + 3_600_000
    assert mirror.external_id_sha256 == sha256(made.external_id)
    assert rotated.record.state == "rotating"
    clock.advance(seconds=3600)
    assert keys("GetKey", keys_pb2.GetKeyRequest(key_id=key_id)).state == "active"


def test_rotating_again_ends_the_older_overlap(keys: Caller) -> None:
    made = create(keys)
    key_id = made.record.key.key_id
    second = keys("RotateKey", keys_pb2.RotateKeyRequest(key_id=key_id))
    keys("RotateKey", keys_pb2.RotateKeyRequest(key_id=key_id))
    mirror = mirrored(keys, key_id)
    assert mirror.previous_secret_sha256 == sha256(second.key_value.partition(".")[2])


def test_an_overlap_is_ended_early_and_once_and_audited(keys: Caller, deployment: Caller) -> None:
    key_id = create(keys).record.key.key_id
    rotated = keys("RotateKey", keys_pb2.RotateKeyRequest(key_id=key_id))
    assert keys("EndKeyOverlap", keys_pb2.EndKeyOverlapRequest(key_id=key_id)).state == "active"
    mirror = mirrored(keys, key_id)
    assert mirror.secret_sha256 == sha256(rotated.key_value.partition(".")[2])
    assert (mirror.previous_secret_sha256, mirror.HasField("previous_secret_expires_at")) == (b"", False)
    with pytest.raises(RefusedError) as refused:
        keys("EndKeyOverlap", keys_pb2.EndKeyOverlapRequest(key_id=key_id))
    assert refused.value.problems == {"key_id": "must name a key that has two secrets"}
    trail = deployment("ListAuditRecords", audit_pb2.ListAuditRecordsRequest(target=key_id)).items
    assert [each.action for each in trail].count("key.overlap_ended") == 1


@pytest.mark.parametrize("seconds", [0, 2 * 3_600, 25 * 3_600, 169 * 3_600, 3_601])
def test_an_overlap_is_one_of_four(keys: Caller, seconds: int) -> None:
    key_id = create(keys).record.key.key_id
    with pytest.raises(RefusedError) as refused:
        keys("RotateKey", keys_pb2.RotateKeyRequest(key_id=key_id, overlap=Duration(seconds=seconds)))
    assert refused.value.problems == {"overlap_hours": "must be 1, 24, 72 or 168 hours"}


def test_a_new_external_id_has_no_overlap_and_leaves_the_secret(keys: Caller) -> None:
    made = create(keys)
    key_id = made.record.key.key_id
    issued = keys("IssueExternalId", keys_pb2.IssueExternalIdRequest(key_id=key_id))
    mirror = mirrored(keys, key_id)
    assert mirror.external_id_sha256 == sha256(issued.external_id) != sha256(made.external_id)
    assert mirror.secret_sha256 == sha256(made.key_value.partition(".")[2])


def test_a_revoked_key_stays_revoked_and_only_then_can_be_deleted(keys: Caller) -> None:
    key_id = create(keys).record.key.key_id
    with pytest.raises(RefusedError):
        keys("DeleteKey", keys_pb2.DeleteKeyRequest(key_id=key_id))
    assert keys("RevokeKey", keys_pb2.RevokeKeyRequest(key_id=key_id)).state == "revoked"
    for method, request in (
        ("UpdateKey", keys_pb2.UpdateKeyRequest(key_id=key_id, name="again")),
        ("RotateKey", keys_pb2.RotateKeyRequest(key_id=key_id)),
        ("EndKeyOverlap", keys_pb2.EndKeyOverlapRequest(key_id=key_id)),
        ("IssueExternalId", keys_pb2.IssueExternalIdRequest(key_id=key_id)),
    ):
        with pytest.raises(RefusedError) as refused:
            keys(method, request)
        assert "key_id" in refused.value.problems
    keys("DeleteKey", keys_pb2.DeleteKeyRequest(key_id=key_id))
    with pytest.raises(RefusedError) as refused:
        keys("GetKey", keys_pb2.GetKeyRequest(key_id=key_id))
    assert refused.value.reason == "not_found"


def test_the_audit_trail_outlives_the_key(keys: Caller, deployment: Caller) -> None:
    key_id = create(keys).record.key.key_id
    keys("RevokeKey", keys_pb2.RevokeKeyRequest(key_id=key_id), actor="grace")
    keys("DeleteKey", keys_pb2.DeleteKeyRequest(key_id=key_id))
    trail = deployment("ListAuditRecords", audit_pb2.ListAuditRecordsRequest(target=key_id)).items
    assert sorted(record.action for record in trail) == ["key.created", "key.deleted", "key.revoked"]
    assert next(record.actor for record in trail if record.action == "key.revoked") == "grace"


def test_a_key_expires_at_its_date(keys: Caller, clock: TestClock) -> None:
    key_id = create(keys, lifetime=days(30)).record.key.key_id
    clock.advance(days=30)
    assert keys("GetKey", keys_pb2.GetKeyRequest(key_id=key_id)).state == "expired"


def test_every_field_but_the_deployment_can_be_edited(keys: Caller) -> None:
    made = create(keys, allowed_hours=keys_pb2.AllowedHours(start_hour=1, end_hour=2))
    request = keys_pb2.UpdateKeyRequest(
        key_id=made.record.key.key_id,
        name="new",
        description="text",
        scopes=keys_pb2.ScopeList(scopes=[READ, CREATE]),
        source_allow_list=keys_pb2.SourceAllowList(ranges=["10.0.0.0/8"]),
        clear_allowed_hours=True,
        lifetime=days(365),
        rate_limit_rpm=1,
        daily_run_quota=2,
        max_concurrent_runs=3,
        daily_tokens=4,
        daily_cost_microusd=5,
    )
    edited = keys("UpdateKey", request)
    assert (edited.key.name, edited.description) == ("new", "text")
    assert list(edited.key.scopes) == [READ, CREATE]
    assert list(edited.source_allow_list) == ["10.0.0.0/8"]
    assert not edited.HasField("allowed_hours")
    assert edited.key.expires_at.ToMilliseconds() == edited.created_at.ToMilliseconds() + 365 * DAY_MS
    limits = (edited.key.rate_limit_rpm, edited.key.daily_run_quota, edited.key.max_concurrent_runs)
    assert limits == (1, 2, 3)
    assert (edited.daily_tokens, edited.daily_cost_microusd) == (4, 5)
    assert mirrored(keys, made.record.key.key_id).secret_sha256 == sha256(made.key_value.partition(".")[2])


def test_a_key_has_the_normal_priority_until_an_audited_change(keys: Caller, deployment: Caller) -> None:
    made = create(keys).record
    assert made.priority == keys_pb2.KEY_PRIORITY_NORMAL
    request = keys_pb2.UpdateKeyRequest(key_id=made.key.key_id, priority=keys_pb2.KEY_PRIORITY_HIGH)
    assert keys("UpdateKey", request).priority == keys_pb2.KEY_PRIORITY_HIGH
    renamed = keys_pb2.UpdateKeyRequest(key_id=made.key.key_id, name="Other")
    assert keys("UpdateKey", renamed).priority == keys_pb2.KEY_PRIORITY_HIGH
    trail = deployment("ListAuditRecords", audit_pb2.ListAuditRecordsRequest(target=made.key.key_id)).items
    assert [json.loads(each.details).get("priority") for each in trail] == [None, "high", None]


def test_a_daily_limit_of_models_is_ended_by_an_edit(keys: Caller) -> None:
    made = create(keys, daily_tokens=10, daily_cost_microusd=20).record
    assert (made.daily_tokens, made.daily_cost_microusd, made.tokens_today, made.cost_today_microusd) == (10, 20, 0, 0)
    key_id = made.key.key_id
    edited = keys("UpdateKey", keys_pb2.UpdateKeyRequest(key_id=key_id, clear_daily_tokens=True))
    assert (edited.HasField("daily_tokens"), edited.daily_cost_microusd) == (False, 20)
    with pytest.raises(RefusedError) as refused:
        keys("UpdateKey", keys_pb2.UpdateKeyRequest(key_id=key_id, clear_daily_tokens=True, daily_tokens=1))
    assert "clear_daily_tokens" in refused.value.problems


def test_me_answers_the_calling_key_with_its_live_counters(keys: Caller) -> None:
    key_id = create(keys).record.key.key_id
    me = keys("GetMe", caller_pb2.GetMeRequest(), key_id=key_id)
    assert (me.key_id, me.quota_used_today, me.active_runs) == (key_id, 0, 0)


def test_a_watcher_gets_changes_and_heartbeats(keys: Caller, clock: TestClock) -> None:
    stream = keys.stream("WatchKeyMirror", edge_pb2.WatchKeyMirrorRequest())
    assert not stream.take().any_key_ever
    key_id = create(keys).record.key.key_id
    second = stream.take()
    assert second.any_key_ever
    assert [key.key_id for key in second.keys] == [key_id]
    clock.advance(seconds=6)
    assert stream.take().unchanged
    keys("RevokeKey", keys_pb2.RevokeKeyRequest(key_id=key_id))
    assert stream.take().keys[0].revoked
    stream.cancel()


def test_deleting_every_key_leaves_the_deployment_enabled(keys: Caller) -> None:
    key_id = create(keys).record.key.key_id
    keys("RevokeKey", keys_pb2.RevokeKeyRequest(key_id=key_id))
    keys("DeleteKey", keys_pb2.DeleteKeyRequest(key_id=key_id))
    mirror = keys("GetKeyMirror", edge_pb2.GetKeyMirrorRequest())
    assert mirror.any_key_ever
    assert not mirror.keys


def test_a_usage_batch_is_kept_once(keys: Caller) -> None:
    record = usage_pb2.UsageRecord(
        at=to_timestamp(5), key_id="ak_1", method="GET", route="/me", status=403, address="10.0.0.1", reason="forbidden"
    )
    measured = usage_pb2.UsageRecord(duration_us=1_500)
    measured.MergeFrom(record)
    for _ in range(2):
        keys("RecordUsage", edge_pb2.RecordUsageRequest(batch_id="b1", records=[record, measured]))
    kept = keys("ListUsageRecords", usage_pb2.ListUsageRecordsRequest(key_id="ak_1")).items
    assert list(kept) == [measured, record]
    assert not keys("ListUsageRecords", usage_pb2.ListUsageRecordsRequest(key_id="ak_2")).items


def test_usage_is_counted_by_the_hour(keys: Caller) -> None:
    hour = 3_600_000

    def record(at_ms: int, key_id: str = "ak_1", status: int = 200) -> usage_pb2.UsageRecord:
        return usage_pb2.UsageRecord(at=to_timestamp(at_ms), key_id=key_id, method="GET", route="/me", status=status)

    first = [record(hour), record(2 * hour - 1), record(2 * hour - 1, status=429), record(hour, "ak_2")]
    for batch_id, records in (("b1", first), ("b1", first), ("b2", [record(hour + 1), record(2 * hour)])):
        keys("RecordUsage", edge_pb2.RecordUsageRequest(batch_id=batch_id, records=records))

    def counts(**asked: Any) -> list[tuple[int, str, int, int]]:
        items = keys("ListUsageHours", usage_pb2.ListUsageHoursRequest(**asked)).items
        return [(milliseconds_of(item.hour) // hour, item.key_id, item.status, item.calls) for item in items]

    assert counts() == [(2, "ak_1", 200, 1), (1, "ak_1", 200, 3), (1, "ak_1", 429, 1), (1, "ak_2", 200, 1)]
    assert counts(key_id="ak_2") == [(1, "ak_2", 200, 1)]
    assert counts(since=to_timestamp(2 * hour)) == [(2, "ak_1", 200, 1)]
    assert counts(until=to_timestamp(2 * hour), key_id="ak_1") == [(1, "ak_1", 200, 3), (1, "ak_1", 429, 1)]
    assert len(counts(page_size=2)) == 2


def test_a_change_of_the_deployment_is_audited_and_reaches_watchers(keys: Caller, deployment: Caller) -> None:
    before = keys("GetKeyMirror", edge_pb2.GetKeyMirrorRequest())
    deployment("UpdateDeployment", deployment_pb2.UpdateDeploymentRequest(api_enabled=False), actor="ada")
    after = keys("GetKeyMirror", edge_pb2.GetKeyMirrorRequest())
    assert before.api_enabled
    assert not after.api_enabled
    assert after.revision > before.revision
    trail = deployment("ListAuditRecords", audit_pb2.ListAuditRecordsRequest()).items
    assert (trail[0].actor, trail[0].action) == ("ada", "deployment.changed")
    assert json.loads(trail[0].details) == {"api_enabled": False, "before": {"api_enabled": True}}
    health = deployment("GetHealth", deployment_pb2.GetHealthRequest())
    assert health.status == deployment_pb2.Health.STATUS_DISABLED
    assert health.api_version == "2026-09-24"


def test_a_key_shown_to_its_caller_is_never_older_than_its_last_change(
    keys: Caller, services: Services, clock: TestClock
) -> None:
    one, other = (create(keys, name=name).record.key.key_id for name in ("one", "other"))

    def seen(key_id: str) -> tuple[str, int]:
        me = keys("GetMe", caller_pb2.GetMeRequest(), key_id=key_id)
        return me.name, me.quota_used_today

    def count(key_id: str, *, first: bool) -> None:
        day = utc_day(clock())
        services.database.write(lambda tx: start_sql.count_starts(tx, key_id, day, 1, first=first))

    assert (seen(one), seen(other)) == (("one", 0), ("other", 0))
    keys("UpdateKey", keys_pb2.UpdateKeyRequest(key_id=one, name="renamed"))
    assert (seen(one), seen(other)) == (("renamed", 0), ("other", 0))
    for number in range(1, 4):
        count(other, first=number == 1)
        assert (seen(one), seen(other)) == (("renamed", 0), ("other", number))
    clock.advance(seconds=86_400)
    assert seen(other) == ("other", 0)


def test_keys_are_found_by_a_part_of_name_id_or_description_within_a_bound(keys: Caller) -> None:
    made = [
        create(keys, name=name, description=text)
        for name, text in (("billing", ""), ("old billing", ""), ("x_1", "of Billing"))
    ]

    def found(text: str, most: int = 8) -> list[str]:
        return [item.name for item in keys("FindKeys", keys_pb2.FindKeysRequest(text=text, most=most)).items]

    assert found("BILL") == ["billing", "old billing", "x_1"]
    assert found("bill", most=1) == ["billing"]
    # No id has this: its only underscore follows its prefix.
    assert found("x_1") == ["x_1"]
    assert found("x__") == []
    assert found("%") == []
    key_id = made[1].record.key.key_id
    assert found(key_id) == ["old billing"]
    keys("RevokeKey", keys_pb2.RevokeKeyRequest(key_id=key_id))
    (revoked,) = keys("FindKeys", keys_pb2.FindKeysRequest(text="old")).items
    assert (revoked.key_id, revoked.state) == (key_id, "revoked")


def test_a_changed_key_is_audited_with_its_name_and_the_values_before(keys: Caller, deployment: Caller) -> None:
    key_id = create(keys, name="billing", daily_run_quota=100).record.key.key_id
    keys("UpdateKey", keys_pb2.UpdateKeyRequest(key_id=key_id, daily_run_quota=200))
    (record,) = deployment("ListAuditRecords", audit_pb2.ListAuditRecordsRequest(action="key.edited")).items
    assert json.loads(record.details) == {"name": "billing", "daily_run_quota": 200, "before": {"daily_run_quota": 100}}
