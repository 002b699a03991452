import pytest

from contract.times import to_timestamp
from deploy.cli.users import ROLES
from tests.unit.deploy.fake_backend import FakeBackend, command
from workflow_api.v1 import users_pb2

PASSWORD = "k7mqd-3vx9a-00000-zzzzz-23456"


@pytest.fixture
def user() -> users_pb2.User:
    return users_pb2.User(
        name="ana",
        role=users_pb2.ROLE_APPROVER,
        created_at=to_timestamp(1_790_000_000_000),
        password_is_temporary=True,
    )


def test_every_role_can_be_given() -> None:
    assert set(ROLES.values()) == set(users_pb2.Role.values()) - {users_pb2.ROLE_UNSPECIFIED}


def test_add_sends_name_and_role_and_prints_the_password(backend: FakeBackend, user: users_pb2.User) -> None:
    backend.answers["CreateUser"] = users_pb2.UserPassword(user=user, password=PASSWORD)

    made = command("users", "add", "ana", "--role", "approver", "--grpc", backend.address, "--json")

    assert backend.request("CreateUser") == users_pb2.CreateUserRequest(name="ana", role=users_pb2.ROLE_APPROVER)
    assert made.json == {
        "name": "ana",
        "password": PASSWORD,
        "role": "approver",
        "disabled": False,
        "created_at": "2026-09-21T14:13:20.000+00:00",
        "signed_in_at": None,
        "password_is_temporary": True,
        "decides_for": None,
        "of_provider": False,
        "passkeys": 0,
        "needs_passkey": False,
        "preferences": None,
        "views": [],
    }


def test_set_role_sends_the_role_and_the_workflows_of_an_approver(backend: FakeBackend, user: users_pb2.User) -> None:
    chosen = users_pb2.ChosenWorkflows(workflow_ids=["wf_1", "wf_2"])
    user.decides_for.CopyFrom(chosen)
    backend.answers["SetUserRole"] = user
    asked = ("users", "set-role", "ana", "--role", "approver", "--workflow", "wf_1", "--workflow", "wf_2")

    said = command(*asked, "--grpc", backend.address)

    assert backend.request("SetUserRole") == users_pb2.SetUserRoleRequest(
        name="ana", role=users_pb2.ROLE_APPROVER, decides_for=chosen
    )
    assert said.out == "The role of ana is approver for wf_1, wf_2.\n"


def test_the_password_is_shown_once(backend: FakeBackend, user: users_pb2.User) -> None:
    backend.answers["ResetUserPassword"] = users_pb2.UserPassword(user=user, password=PASSWORD)

    made = command("users", "reset-password", "ana", "--grpc", backend.address)

    assert backend.request("ResetUserPassword").name == "ana"
    assert made.out.count(PASSWORD) == 1
    assert "cannot be shown again" in made.out


def test_a_role_is_required_and_known(backend: FakeBackend) -> None:
    for misused in (("users", "add", "ana"), ("users", "add", "ana", "--role", "root")):
        ended = command(*misused, "--grpc", backend.address, "--json")
        assert ended.code == 2
        assert "--role" in ended.error["message"]
    assert not backend.requests


def test_disable_says_what_it_did(backend: FakeBackend, user: users_pb2.User) -> None:
    user.disabled = True
    backend.answers["DisableUser"] = user

    assert command("users", "disable", "ana", "--grpc", backend.address).out == (
        "ana is disabled, and signed out everywhere.\n"
    )
    assert command("users", "disable", "ana", "--grpc", backend.address, "--json").json["disabled"] is True


def test_enable_says_what_it_did(backend: FakeBackend, user: users_pb2.User) -> None:
    backend.answers["EnableUser"] = user

    assert command("users", "enable", "ana", "--grpc", backend.address).out == "ana may sign in again.\n"
    assert command("users", "enable", "ana", "--grpc", backend.address, "--json").json["disabled"] is False


def test_remove_passkeys_says_what_it_did(backend: FakeBackend, user: users_pb2.User) -> None:
    backend.answers["RemoveUserPasskeys"] = user

    said = command("users", "remove-passkeys", "ana", "--grpc", backend.address).out
    assert said == "ana signs in with the password alone, and is signed out everywhere.\n"
    assert command("users", "remove-passkeys", "ana", "--grpc", backend.address, "--json").json["name"] == "ana"


def test_list_prints_every_user(backend: FakeBackend, user: users_pb2.User) -> None:
    backend.answers["ListUsers"] = [users_pb2.ListUsersResponse(), users_pb2.ListUsersResponse(items=[user])]

    assert "workflow-api users add" in command("users", "list", "--grpc", backend.address).out
    listed = command("users", "list", "--grpc", backend.address).out
    assert "ana" in listed
    assert "approver" in listed
