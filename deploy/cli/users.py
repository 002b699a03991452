"""`workflow-api users`: users of the console."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from contract.roles import ROLE_NAMES
from deploy.cli.option_names import USER_OPTIONS, option_names
from deploy.cli.options import DEFAULT_GRPC, Grpc, Json, Utc
from deploy.cli.output.printing import Form, TableColumn, print_details, print_json, print_table
from deploy.cli.output.records import PAGE, items_of, record_of, with_nulls
from deploy.client.backend import connected
from workflow_api.v1 import users_pb2

ROLES: Final[Mapping[str, users_pb2.Role.ValueType]] = {name: role for role, name in ROLE_NAMES.items()}

command = typer.Typer()

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name to sign in with.")]

RoleOption = Annotated[
    str,
    typer.Option(
        "--role",
        metavar="|".join(ROLES),
        help="An operator starts and cancels runs, an approver decides approvals, a viewer only looks.",
    ),
]
Workflows = Annotated[
    list[str] | None,
    typer.Option("--workflow", metavar="ID", help="A workflow that an approver decides for; repeatable. Default: all."),
]


@command.command("add")
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="1 to 100 of a-z 0-9 . _ @ -")],
    role: RoleOption,
    workflows: Workflows = None,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Add a user, or enable a disabled one; show the password once."""
    request = users_pb2.CreateUserRequest(name=name, role=known_role(role), decides_for=chosen(workflows))
    with option_names(USER_OPTIONS), connected(grpc) as backend:
        show_password(backend.call(backend.users.CreateUser, request), as_json=as_json)


@command.command("list")
def list_users(utc: Utc = False, grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """List all users by name, disabled ones included."""
    with option_names(USER_OPTIONS), connected(grpc) as backend:
        pages = backend.pages(backend.users.ListUsers, users_pb2.ListUsersRequest(page_size=PAGE))
        items = [with_nulls(item) for item in items_of(pages)]
    if as_json:
        print_json({"items": items})
    else:
        print_table(items, USER_COLUMNS, none="No user yet: add one with `workflow-api users add`.", utc=utc)


@command.command("set-role")
def set_role(
    name: Name,
    role: RoleOption,
    workflows: Workflows = None,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Change what a user may do, from their next request on."""
    request = users_pb2.SetUserRoleRequest(name=name, role=known_role(role), decides_for=chosen(workflows))
    with option_names(USER_OPTIONS), connected(grpc) as backend:
        user = backend.call(backend.users.SetUserRole, request)
    if as_json:
        print_json(user_record(user))
    else:
        of = f" for {', '.join(user.decides_for.workflow_ids)}" if user.HasField("decides_for") else ""
        print(f"The role of {name} is {role}{of}.")


@command.command("enable")
def enable(name: Name, grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """Let a disabled user of the identity provider sign in again."""
    with option_names(USER_OPTIONS), connected(grpc) as backend:
        user = backend.call(backend.users.EnableUser, users_pb2.EnableUserRequest(name=name))
    if as_json:
        print_json(user_record(user))
    else:
        print(f"{name} may sign in again.")


@command.command("disable")
def disable(name: Name, grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """Disable a user and end their sessions."""
    with option_names(USER_OPTIONS), connected(grpc) as backend:
        user = backend.call(backend.users.DisableUser, users_pb2.DisableUserRequest(name=name))
    if as_json:
        print_json(user_record(user))
    else:
        print(f"{name} is disabled, and signed out everywhere.")


@command.command("reset-password")
def reset_password(name: Name, grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """Create a new password, show it once, and end the user's sessions."""
    with option_names(USER_OPTIONS), connected(grpc) as backend:
        request = users_pb2.ResetUserPasswordRequest(name=name)
        show_password(backend.call(backend.users.ResetUserPassword, request), as_json=as_json)


def known_role(role: str) -> users_pb2.Role.ValueType:
    """Returns the role of a name."""
    if role not in ROLES:
        raise typer.BadParameter(f"{role!r} is not a role; allowed are {', '.join(ROLES)}", param_hint="--role")
    return ROLES[role]


def chosen(workflows: list[str] | None) -> users_pb2.ChosenWorkflows | None:
    """Returns the named workflows; None if none are named."""
    return users_pb2.ChosenWorkflows(workflow_ids=workflows) if workflows else None


@command.command("remove-passkeys")
def remove_passkeys(name: Name, grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """Remove the passkeys and recovery codes of a user who has lost them, and end their sessions."""
    with option_names(USER_OPTIONS), connected(grpc) as backend:
        user = backend.call(backend.users.RemoveUserPasskeys, users_pb2.RemoveUserPasskeysRequest(name=name))
    if as_json:
        print_json(user_record(user))
    else:
        print(f"{name} signs in with the password alone, and is signed out everywhere.")


def user_record(user: users_pb2.User) -> dict[str, Any]:
    """Returns a user as the JSON object of the command."""
    return with_nulls(record_of(user))


def show_password(made: users_pb2.UserPassword, *, as_json: bool) -> None:
    """Prints a user and their new password."""
    record = user_record(made.user)
    record = {"name": record.pop("name"), "password": made.password, **record}
    if as_json:
        print_json(record)
        return
    print_details(record, USER_DETAILS)
    print("\nWrite down the password: it is not kept and cannot be shown again. It is to be changed after the sign-in.")


USER_COLUMNS: Final = (
    TableColumn("NAME", "name", rank=0),
    TableColumn("ROLE", "role", rank=1),
    TableColumn("DISABLED", "disabled", rank=2),
    TableColumn("TEMPORARY PASSWORD", "password_is_temporary", rank=5),
    TableColumn("ADDED", "created_at", Form.TIME, rank=4),
    TableColumn("SIGNED IN", "signed_in_at", Form.TIME, rank=3),
)

USER_DETAILS: Final = (
    TableColumn("name", "name"),
    TableColumn("password", "password"),
    TableColumn("role", "role"),
    TableColumn("created_at", "created_at", Form.TIME),
)
