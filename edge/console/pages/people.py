"""Pages of the console's users."""

from typing import Final

from edge.console.paging import all_items
from edge.console.problems import Problems, problems_of
from edge.console.visit import ADMINISTRATORS, Answered, Page, Redirect, View, Visit
from edge.errors import Refusal
from workflow_api.v1.users_pb2 import (
    ROLE_ADMINISTRATOR,
    ROLE_APPROVER,
    CreateUserRequest,
    DisableUserRequest,
    EnableUserRequest,
    ListUsersRequest,
    RemoveUserPasskeysRequest,
    ResetUserPasswordRequest,
    Role,
    UserPassword,
)

ROLES: Final = {"approver": ROLE_APPROVER, "administrator": ROLE_ADMINISTRATOR}
ROLE_WORDS: Final = {ROLE_APPROVER: "Approver", ROLE_ADMINISTRATOR: "Administrator"}

_CHOICES: Final = (
    ("approver", "Approver: sees workflows and runs, and decides approvals"),
    ("administrator", "Administrator: everything"),
)
_PAGE: Final = 100
_NO_PROBLEMS: Final[Problems] = {}


async def list_people(visit: Visit) -> Answered:
    """Lists all users, disabled ones included."""
    return await _list(visit)


async def add(visit: Visit) -> Answered:
    """Adds a user, or enables a disabled one; only this response has the password."""
    role = ROLES.get(visit.sent("role"), Role.ROLE_UNSPECIFIED)
    try:
        made = await visit.services.call(
            "UsersService/CreateUser", CreateUserRequest(name=visit.sent("name"), role=role)
        )
    except Refusal as refusal:
        return await _list(visit, problems_of(refusal))
    return _password(f"{made.user.name} may sign in", made)


async def enable(visit: Visit) -> Answered:
    """Lets a disabled user of the identity provider sign in again."""
    name = visit.path["name"]
    try:
        await visit.services.call("UsersService/EnableUser", EnableUserRequest(name=name))
    except Refusal as refusal:
        return await _list(visit, problems_of(refusal))
    return Redirect("/people", f"{name} may sign in again.")


async def disable(visit: Visit) -> Answered:
    """Disables a user and ends their sessions; users cannot disable themselves."""
    name = visit.path["name"]
    if name == visit.user.name:
        own = "You cannot disable yourself. Ask another administrator."
        return await _list(visit, {"form": own})
    await visit.services.call("UsersService/DisableUser", DisableUserRequest(name=name))
    return Redirect("/people", f"{name} cannot sign in any more.")


async def reset_password(visit: Visit) -> Answered:
    """Resets a password; only this response has the new one."""
    request = ResetUserPasswordRequest(name=visit.path["name"])
    made = await visit.services.call("UsersService/ResetUserPassword", request)
    return _password(f"{made.user.name} has a new password", made)


async def remove_passkeys(visit: Visit) -> Answered:
    """Removes the passkeys of a user who has lost them."""
    name = visit.path["name"]
    await visit.services.call("UsersService/RemoveUserPasskeys", RemoveUserPasskeysRequest(name=name))
    return Redirect("/people", f"{name} signs in with the password alone.")


async def _list(visit: Visit, problems: Problems = _NO_PROBLEMS) -> View:
    people = await all_items(visit.services, "UsersService/ListUsers", ListUsersRequest(page_size=_PAGE))
    context = {
        "people": people,
        "role_words": ROLE_WORDS,
        "roles": {number: text for text, number in ROLES.items()},
        "choices": _CHOICES,
        "typed": {"name": visit.sent("name"), "role": visit.sent("role")},
        "problems": problems,
        "elsewhere": {name: why for name, why in problems.items() if name not in {"name", "role"}},
    }
    return View("people/list.html", context, status=400 if problems else 200)


def _password(heading: str, made: UserPassword) -> View:
    return View("people/password.html", {"heading": heading, "person": made.user, "password": made.password})


PAGES: Final[tuple[Page, ...]] = (
    Page("GET", "/people", ADMINISTRATORS, list_people),
    Page("POST", "/people", ADMINISTRATORS, add),
    Page("POST", "/people/{name}/enable", ADMINISTRATORS, enable),
    Page("POST", "/people/{name}/disable", ADMINISTRATORS, disable),
    Page("POST", "/people/{name}/passkeys", ADMINISTRATORS, remove_passkeys),
    Page("POST", "/people/{name}/password", ADMINISTRATORS, reset_password),
)
