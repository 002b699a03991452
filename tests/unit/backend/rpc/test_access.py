import re
from pathlib import Path

import pytest

from backend.rpc.access import Access, edge_rpcs
from backend.rpc.reflection import SERVICE_NAMES
from contract.channel.read_batcher import READ_MANY
from contract.routes import METHODS
from workflow_api.v1 import options_pb2

ROOT = Path(__file__).parents[4]
RULES = {rpc: method.GetOptions().Extensions[options_pb2.method_rules] for rpc, method in METHODS.items()}
INTERNAL = {rpc for rpc, rules in RULES.items() if rules.access == options_pb2.ACCESS_INTERNAL}
PUBLIC = {rpc for rpc, rules in RULES.items() if rules.access == options_pb2.ACCESS_PUBLIC}

HANDSHAKE = "/workflow_api.v1.EdgeService/Handshake"
RECORD_USAGE = "/workflow_api.v1.EdgeService/RecordUsage"
OF_EDGES = {
    "/workflow_api.v1.EdgeService/GetKeyMirror",
    "/workflow_api.v1.EdgeService/WatchKeyMirror",
    "/workflow_api.v1.EdgeService/WatchRunChanges",
    "/workflow_api.v1.RunsService/FindChangedRuns",
    RECORD_USAGE,
    READ_MANY,
}


def given(*names: str) -> set[str]:
    """The RPCs that an identity with these may call, in the name of a key or in none."""
    access = Access(RULES, {"dns:a": names})
    return {
        rpc for rpc in METHODS if None in {access.refusal(["dns:a"], rpc, names_a_key=key) for key in (True, False)}
    }


def test_an_edge_may_call_what_its_routes_and_its_mirror_need() -> None:
    assert given("edge") == edge_rpcs(RULES) == (set(METHODS) - INTERNAL) | OF_EDGES | {HANDSHAKE}


def test_an_edge_names_a_key_wherever_the_rpc_is_a_keys() -> None:
    access = Access(RULES, {"dns:a": ["edge"]})
    without = {rpc for rpc in METHODS if access.refusal(["dns:a"], rpc, names_a_key=False) is None}
    assert without == PUBLIC | OF_EDGES | {HANDSHAKE}


def test_reads_that_name_their_keys_are_for_those_alone_who_act_for_keys() -> None:
    access = Access(RULES, {"dns:a": ["workflow_api.v1.EdgeService"], "dns:b": [READ_MANY, "act-for-keys"]})
    assert access.refusal(["dns:a"], RECORD_USAGE, names_a_key=False) is None
    assert access.refusal(["dns:a"], READ_MANY, names_a_key=False) is not None
    assert access.refusal(["dns:b"], READ_MANY, names_a_key=False) is None


def test_administration_and_runs_are_what_the_commands_call_and_nothing_of_an_edge() -> None:
    sources = [path.read_text() for path in (ROOT / "deploy").rglob("*.py")]
    called = {match for source in sources for match in re.findall(r"backend\.(\w+)\.([A-Z]\w+)", source)}
    needed = {
        f"/workflow_api.v1.{service.title().replace('_', '')}Service/{name}"
        for service, name in called - {("health", "Check")}
    }
    assert len(needed) > 20
    assert needed <= given("administration", "runs")
    assert given("administration", "runs") - needed <= INTERNAL
    assert not given("administration", "runs") & OF_EDGES


def test_only_runs_lets_a_person_start_and_erase_runs_and_fetch_what_they_left() -> None:
    own = {"StartRun", "CancelRun", "EraseRunData", "ListOutputs", "GetOutputContent", "GetOutputsZip"}
    own |= {"TriggerSchedule", "PlanStart"}
    assert own <= {rpc.rpartition("/")[2] for rpc in given("runs")}
    assert not own & {rpc.rpartition("/")[2] for rpc in given("administration")}
    assert all(
        re.search("/(Get|List|Stream|Watch|TriggerSchedule$|PlanStart$)", rpc) for rpc in given("runs") & INTERNAL
    )


@pytest.mark.parametrize(
    ("role", "may"), [("edge", True), ("console", True), ("runs", True), ("administration", False)]
)
def test_roles_that_keep_a_channel_may_watch_whether_a_backend_stops(role: str, may: bool) -> None:
    refusal = Access(RULES, {"dns:a": [role]}).refusal(["dns:a"], "/grpc.health.v1.Health/Watch", names_a_key=False)
    assert (refusal is None) == may


def test_the_console_may_call_what_its_pages_call() -> None:
    sources = [path.read_text() for path in (ROOT / "console").rglob("*.py")]
    called = {match for source in sources for match in re.findall(r'"(\w+Service/[A-Z]\w+)"', source)}
    assert len(called) > 10
    assert {f"/workflow_api.v1.{rpc}" for rpc in called} <= given("console")


def test_the_console_may_read_what_its_pages_show_and_alone_hears_of_passwords() -> None:
    own = {rpc for rpc in INTERNAL if re.match(r"/workflow_api\.v1\.(Sessions|Passkeys)Service/", rpc)}
    assert own
    console, administration = given("console"), given("administration")
    assert not own & (administration | given("edge"))
    assert own | administration <= console
    more = console - administration - own - {HANDSHAKE}
    starts = "(Start|Cancel)Run$|TriggerSchedule$|PlanStart$"
    for_people = f"/(Get|List|RevealRunInputs$|{starts}|EraseRunData$|(Assign|Snooze)Approval$)|[.]UploadsService/"
    assert all(re.search(for_people, rpc) for rpc in more)
    assert not console & OF_EDGES


def test_an_identity_has_what_any_of_its_names_was_given() -> None:
    access = Access(RULES, {"dns:a": ["workflow_api.v1.RunsService"], "uri:b": ["act-for-keys"]})
    get_run = "/workflow_api.v1.RunsService/GetRun"
    assert access.refusal(["dns:a", "uri:b"], get_run, names_a_key=True) is None
    assert access.refusal(["dns:a"], get_run, names_a_key=True) is not None
    assert access.refusal(["uri:b"], get_run, names_a_key=True) is not None
    assert access.refusal([], get_run, names_a_key=False) is not None


@pytest.mark.parametrize("rpc", ["GetRun", "WatchRun", "WatchRunEvents"])
def test_who_acts_for_keys_names_one_to_read_or_watch_a_run(rpc: str) -> None:
    access = Access(RULES, {"dns:a": ["workflow_api.v1.RunsService", "act-for-keys"]})
    path = f"/workflow_api.v1.RunsService/{rpc}"
    assert access.refusal(["dns:a"], path, names_a_key=False) is not None
    assert access.refusal(["dns:a"], path, names_a_key=True) is None


def test_every_internal_rpc_names_the_roles_that_may_call_it() -> None:
    assert all(RULES[rpc].callers for rpc in INTERNAL)
    assert not {rpc for rpc, rules in RULES.items() if options_pb2.CALLER_ROLE_UNSPECIFIED in rules.callers}


@pytest.mark.parametrize(
    "name", ["", "unspecified", "admin", "workflow_api.v1.RunService", "/workflow_api.v1.RunsService/*"]
)
def test_an_identity_cannot_be_given_an_unknown_rpc(name: str) -> None:
    with pytest.raises(ValueError, match="which is no service, RPC or role"):
        Access(RULES, {"dns:a": [name]})


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection_is_given_in_both_versions(version: str) -> None:
    access = Access(RULES, {"dns:a": [f"grpc.reflection.{version}.ServerReflection"]})
    asked = [f"/{service}/ServerReflectionInfo" for service in SERVICE_NAMES]
    assert [access.refusal(["dns:a"], rpc, names_a_key=False) for rpc in asked] == [None, None]
