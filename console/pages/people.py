"""Pages of the console's users."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from console.forms.urlencoded import Problems, invalid, problems_of
from console.pages.workflows import every_workflow
from console.paging import all_items
from console.visit import PageResult, Redirect, View, Visit
from contract.refusals import Refusal
from contract.roles import ROLE_NAMES
from workflow_api.v1.users_pb2 import (
    ROLE_APPROVER,
    ROLE_UNSPECIFIED,
    ChosenWorkflows,
    CreateUserRequest,
    DisableUserRequest,
    EnableUserRequest,
    ListUsersRequest,
    RemoveUserPasskeysRequest,
    ResetUserPasswordRequest,
    Role,
    SetUserRoleRequest,
    User,
    UserPassword,
)

ROLES: Final = {name: role for role, name in ROLE_NAMES.items()}
ALL: Final = "all"
CHOSEN: Final = "chosen"

_EXPLAINED: Final = (
    ("Viewer", "sees workflows, runs and health, and changes nothing"),
    ("Approver", "decides approvals, and sees the workflows and runs that they are of"),
    ("Operator", "sees, starts and cancels runs, and decides nothing"),
    ("Administrator", "does everything"),
)
_SCOPES: Final = ((ALL, "All workflows, now and later"), (CHOSEN, "Only these, ticked below"))
REPEATED_FIELDS: Final = frozenset({"workflow_ids"})
_PAGE: Final = 100
_NO_PROBLEMS: Final[Problems] = {}
_CHOSEN_IDS: Final = "decides_for.workflow_ids"


class RoleForm(NamedTuple):
    """Values of the fields of a role, as typed."""

    role: str
    scope: str
    workflow_ids: Sequence[str]

    def permissions(self) -> dict[str, Any]:
        """Returns the permission fields of a request; workflows count for approvers alone.

        Raises:
            Refusal: the scope of an approver is not chosen, or does not fit the ticked workflows.
        """
        role: Role.ValueType = ROLES.get(self.role, ROLE_UNSPECIFIED)
        if role == ROLE_APPROVER and self.scope not in {ALL, CHOSEN}:
            raise invalid({"scope": "must be chosen for an approver: all workflows, or only these"})
        if role == ROLE_APPROVER and self.scope == ALL and self.workflow_ids:
            raise invalid({"scope": "must be only these while any is ticked below"})
        chosen = role == ROLE_APPROVER and self.scope == CHOSEN
        return {"role": role, "decides_for": ChosenWorkflows(workflow_ids=self.workflow_ids) if chosen else None}


async def list_people(visit: Visit) -> PageResult:
    """Lists all users, disabled ones included."""
    return await _list(visit)


async def add(visit: Visit) -> PageResult:
    """Adds a user, or enables a disabled one; only this response shows the password."""
    try:
        request = CreateUserRequest(name=visit.sent("name"), **_typed(visit).permissions())
        made = await visit.services.call("UsersService/CreateUser", request)
    except Refusal as refusal:
        return await _list(visit, problems_of(refusal))
    return _password(f"{made.user.name} may sign in", made)


async def role_form(visit: Visit) -> PageResult:
    """Shows the form of a user's role and workflows."""
    person = await _person(visit)
    if person is None:
        return Redirect("/people", f"There is nobody named {visit.path['name']} who may sign in.")
    chosen = person.HasField("decides_for")
    scope = CHOSEN if chosen else ALL if person.role == ROLE_APPROVER else ""
    form = RoleForm(ROLE_NAMES.get(person.role, ""), scope, person.decides_for.workflow_ids)
    return await _role(visit, form)


async def set_role(visit: Visit) -> PageResult:
    """Changes a user's role and workflows, from their next request on."""
    name, form = visit.path["name"], _typed(visit)
    try:
        await visit.services.call("UsersService/SetUserRole", SetUserRoleRequest(name=name, **form.permissions()))
    except Refusal as refusal:
        return await _role(visit, form, problems_of(refusal))
    return Redirect("/people", f"{name} is {_article(form.role)} now.")


async def enable(visit: Visit) -> PageResult:
    """Lets a disabled user of the identity provider sign in again."""
    name = visit.path["name"]
    try:
        await visit.services.call("UsersService/EnableUser", EnableUserRequest(name=name))
    except Refusal as refusal:
        return await _list(visit, problems_of(refusal))
    return Redirect("/people", f"{name} may sign in again.")


async def disable(visit: Visit) -> PageResult:
    """Disables a user and ends their sessions; users cannot disable themselves."""
    name = visit.path["name"]
    if name == visit.user.name:
        own = "You cannot disable yourself. Ask another administrator."
        return await _list(visit, {"form": own})
    await visit.services.call("UsersService/DisableUser", DisableUserRequest(name=name))
    return Redirect("/people", f"{name} cannot sign in any more.")


async def reset_password(visit: Visit) -> PageResult:
    """Resets a password; only this response shows the new one."""
    request = ResetUserPasswordRequest(name=visit.path["name"])
    made = await visit.services.call("UsersService/ResetUserPassword", request)
    return _password(f"{made.user.name} has a new password", made)


async def _people(visit: Visit) -> list[User]:
    return await all_items(visit.services, "UsersService/ListUsers", ListUsersRequest(page_size=_PAGE))


async def _person(visit: Visit) -> User | None:
    return next((each for each in await _people(visit) if each.name == visit.path["name"] and not each.disabled), None)


async def remove_passkeys(visit: Visit) -> PageResult:
    """Removes the passkeys of a user who lost their authenticators."""
    name = visit.path["name"]
    await visit.services.call("UsersService/RemoveUserPasskeys", RemoveUserPasskeysRequest(name=name))
    return Redirect("/people", f"{name} signs in with the password alone.")


async def _list(visit: Visit, problems: Problems = _NO_PROBLEMS) -> View:
    context = {
        "people": [(person, _words(person)) for person in await _people(visit)],
        "roles": ROLE_NAMES,
        "form": _typed(visit),
        "name": visit.sent("name"),
        **await _choices(visit, problems, {"name"}),
    }
    return View("people/list.html", context, status=400 if problems else 200)


async def _role(visit: Visit, form: RoleForm, problems: Problems = _NO_PROBLEMS) -> View:
    context = {"name": visit.path["name"], "form": form, **await _choices(visit, problems, set())}
    return View("people/role.html", context, status=400 if problems else 200)


async def _choices(visit: Visit, problems: Problems, fields: set[str]) -> dict[str, Any]:
    """Returns the choices of the role's fields, with problems of these fields apart from other problems."""
    named = {"workflow_ids" if name == _CHOSEN_IDS else name: why for name, why in problems.items()}
    return {
        "choices": [(name.lower(), name) for name, _ in _EXPLAINED],
        "explained": _EXPLAINED,
        "scopes": _SCOPES,
        "workflows": [(each.workflow_id, each.name) for each in await every_workflow(visit)],
        "problems": named,
        "elsewhere": {name: why for name, why in named.items() if name not in fields | set(RoleForm._fields)},
    }


def _typed(visit: Visit) -> RoleForm:
    # The form that enables a user again has all ids in one hidden field.
    workflow_ids = [part for value in visit.form.get("workflow_ids", ()) for part in value.split(",") if part]
    return RoleForm(visit.sent("role"), visit.sent("scope"), workflow_ids)


def _words(person: User) -> str:
    role = ROLE_NAMES.get(person.role, "none").capitalize()
    if not person.HasField("decides_for"):
        return role
    number = len(person.decides_for.workflow_ids)
    return f"{role} of {number} {'workflow' if number == 1 else 'workflows'}"


def _article(role: str) -> str:
    return f"{'an' if role[:1] in {'a', 'o'} else 'a'} {role}"


def _password(heading: str, made: UserPassword) -> View:
    return View("people/password.html", {"heading": heading, "person": made.user, "password": made.password}, once=True)
