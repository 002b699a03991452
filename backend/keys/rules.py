"""Bounds of a key's properties that a proto cannot state (contract 9.1)."""

import ipaddress
from collections.abc import Iterable, Iterator, Sequence

from backend.errors import ApiError
from contract.spellings import SCOPE_SPELLINGS, SCOPES
from contract.versions import FIRST_RELEASE_WITH_API, release_numbers
from workflow_api.v1 import errors_pb2, keys_pb2, options_pb2

Problem = tuple[str, str]


def granted_scopes(scopes: Iterable[int]) -> list[str]:
    """Returns the spellings of the scopes granted by these, each once, in the order of the contract's list.

    `runs:create` includes `workflows:read` (contract 9.2).
    """
    granted = set(scopes)
    if options_pb2.SCOPE_RUNS_CREATE in granted:
        granted.add(options_pb2.SCOPE_WORKFLOWS_READ)
    return [spelling for number, spelling in SCOPE_SPELLINGS.items() if number in granted]


def scope_numbers(spellings: Iterable[str]) -> list[options_pb2.Scope.ValueType]:
    """Scopes as the protos number them."""
    return [SCOPES[spelling] for spelling in spellings]


def scope_problems(scopes: Sequence[int]) -> Iterator[Problem]:
    """What is wrong with a key's scopes."""
    allowed = ", ".join(SCOPES)
    if not scopes:
        yield "scopes", f"must name at least one of: {allowed}"
    if any(scope not in SCOPE_SPELLINGS for scope in scopes):
        yield "scopes", f"must be among: {allowed}"


def access_problems(access: keys_pb2.WorkflowAccess) -> Iterator[Problem]:
    """Yields what is wrong with a key's choice of workflows."""
    if access.mode == keys_pb2.WorkflowAccess.MODE_UNSPECIFIED:
        yield "workflow_access.mode", "must be all_active or explicit"
    if access.mode == keys_pb2.WorkflowAccess.MODE_EXPLICIT and not access.workflow_ids:
        yield "workflow_access.workflow_ids", "must name 1 to 50 workflows"
    if access.mode == keys_pb2.WorkflowAccess.MODE_ALL_ACTIVE and access.workflow_ids:
        yield "workflow_access.workflow_ids", "must be empty when mode is all_active"
    if len(set(access.workflow_ids)) != len(access.workflow_ids):
        yield "workflow_access.workflow_ids", "must name each workflow once"


def allow_list_problems(ranges: Iterable[str]) -> Iterator[Problem]:
    """Yields what is wrong with a source allow-list: each entry is a CIDR range without host bits."""
    for entry in ranges:
        try:
            ipaddress.ip_network(entry, strict=True)
        except ValueError as error:
            yield "source_allow_list", f"must be CIDR ranges such as 203.0.113.0/24 or 2001:db8::/32: {error}"


def hours_problems(hours: keys_pb2.AllowedHours) -> Iterator[Problem]:
    """Yields what is wrong with allowed hours."""
    if hours.start_hour == hours.end_hour:
        yield "allowed_hours", "start and end must differ"


def release_problems(release: str) -> Iterator[Problem]:
    """Yields what keeps a deployment of this release from having keys (contract 9.5)."""
    if release_numbers(release) < release_numbers(FIRST_RELEASE_WITH_API):
        yield "deployment_id", f"must be of release {FIRST_RELEASE_WITH_API} or later; this one is of {release}"


def refuse(problems: Iterable[Problem]) -> None:
    """Raises ApiError `invalid_request` when there is a problem."""
    found = list(problems)
    if found:
        raise ApiError(errors_pb2.ERROR_REASON_INVALID_REQUEST, problems=found)


def state_of(*, revoked_at: int | None, expires_at: int, previous_secret_expires_at: int | None, now: int) -> str:
    """Returns the state of a key as the administrator sees it (contract 9.6)."""
    if revoked_at is not None:
        return "revoked"
    if now >= expires_at:
        return "expired"
    if previous_secret_expires_at is not None and now < previous_secret_expires_at:
        return "rotating"
    return "active"
