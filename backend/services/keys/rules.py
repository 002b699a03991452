"""Rules of keys (contract 8, 9): checks of their properties that protos cannot state, credentials, usage records."""

import hashlib
import ipaddress
import secrets
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from backend.common.errors import ApiError, invalid
from contract.call_groups import GROUP_MS
from contract.fields import SCOPE_SPELLINGS, SCOPES
from contract.versions import FIRST_RELEASE_WITH_API, release_numbers
from workflow_api.v1 import errors_pb2, keys_pb2, options_pb2
from workflow_api.v1.usage_pb2 import CallGroup

Problem = tuple[str, str]


def granted_scopes(scopes: Iterable[int]) -> list[str]:
    """Returns the spellings of the scopes that `scopes` grant, each once, in the order of the contract's list.

    `runs:create` includes `workflows:read` (contract 9.2).
    """
    granted = set(scopes)
    if options_pb2.SCOPE_RUNS_CREATE in granted:
        granted.add(options_pb2.SCOPE_WORKFLOWS_READ)
    return [spelling for number, spelling in SCOPE_SPELLINGS.items() if number in granted]


def scope_numbers(spellings: Iterable[str]) -> list[options_pb2.Scope.ValueType]:
    """Returns scopes as the protos number them."""
    return [SCOPES[spelling] for spelling in spellings]


def scope_problems(scopes: Sequence[int]) -> Iterator[Problem]:
    """Yields the problems of a key's scopes."""
    allowed = ", ".join(SCOPES)
    if not scopes:
        yield "scopes", f"must name at least one of: {allowed}"
    if any(scope not in SCOPE_SPELLINGS for scope in scopes):
        yield "scopes", f"must be among: {allowed}"


def access_problems(access: keys_pb2.WorkflowAccess) -> Iterator[Problem]:
    """Yields the problems of a key's choice of workflows."""
    if access.mode == keys_pb2.WorkflowAccess.MODE_UNSPECIFIED:
        yield "workflow_access.mode", "must be all_active or explicit"
    if access.mode == keys_pb2.WorkflowAccess.MODE_EXPLICIT and not access.workflow_ids:
        yield "workflow_access.workflow_ids", "must name 1 to 50 workflows"
    if access.mode == keys_pb2.WorkflowAccess.MODE_ALL_ACTIVE and access.workflow_ids:
        yield "workflow_access.workflow_ids", "must be empty when mode is all_active"
    if len(set(access.workflow_ids)) != len(access.workflow_ids):
        yield "workflow_access.workflow_ids", "must name each workflow once"


def allow_list_problems(ranges: Iterable[str]) -> Iterator[Problem]:
    """Yields the problems of a source allow-list; each entry must be a CIDR range without host bits."""
    for entry in ranges:
        try:
            ipaddress.ip_network(entry, strict=True)
        except ValueError as error:
            yield "source_allow_list", f"must be CIDR ranges such as 203.0.113.0/24 or 2001:db8::/32: {error}"


def hours_problems(hours: keys_pb2.AllowedHours) -> Iterator[Problem]:
    """Yields the problems of allowed hours."""
    if hours.start_hour == hours.end_hour:
        yield "allowed_hours", "start and end must differ"


def release_problems(release: str) -> Iterator[Problem]:
    """Yields the reasons why a deployment of this release cannot have keys (contract 9.5)."""
    if release_numbers(release) < release_numbers(FIRST_RELEASE_WITH_API):
        yield "deployment_id", f"must be of release {FIRST_RELEASE_WITH_API} or later; this one is of {release}"


def refuse(problems: Iterable[Problem]) -> None:
    """Raises ApiError `invalid_request` when there is a problem."""
    found = list(problems)
    if found:
        raise ApiError(errors_pb2.ERROR_REASON_INVALID_REQUEST, problems=found)


def state_of(*, revoked_at: int | None, expires_at: int, previous_secret_expires_at: int | None, now: int) -> str:
    """Returns the state of a key: active, rotating, expired or revoked (contract 9.6)."""
    if revoked_at is not None:
        return "revoked"
    if now >= expires_at:
        return "expired"
    if previous_secret_expires_at is not None and now < previous_secret_expires_at:
        return "rotating"
    return "active"


def new_key_id() -> str:
    """Returns a key id: `ak_` and 12 hexadecimal characters."""
    return f"ak_{secrets.token_hex(6)}"


def new_secret() -> str:
    """Returns a secret of 43 characters from `A-Z a-z 0-9 _ -`, 256 random bits."""
    return secrets.token_urlsafe(32)


def new_external_id() -> str:
    """Returns an external id: `ake_` and 32 hexadecimal characters."""
    return f"ake_{secrets.token_hex(16)}"


def sha256_hex(value: str) -> str:
    """Returns the digest of a credential, stored in its place."""
    return hashlib.sha256(value.encode()).hexdigest()


_MOST_CALLS: Final = 2**31 - 1


def require_well_formed(groups: Iterable[CallGroup]) -> None:
    """Refuses malformed groups of calls, which could not be read again.

    Raises:
        ApiError: `invalid_request`: lists of different lengths, an empty group, an unknown kind, a number of calls that
            cannot be added up, or calls further apart than a group may have.
    """
    for group in groups:
        times, numbers = group.times, group.kind
        lengths = {len(times), len(numbers), len(group.addresses), len(group.request_ids), len(group.durations_us)}
        if len(lengths) > 1 or not times:
            raise invalid("groups", "must have lists of the same length, with at least one call")
        if min(times) // GROUP_MS != max(times) // GROUP_MS or min(times) < 0:
            raise invalid("groups.times", f"must be times in the same {GROUP_MS // 1000} seconds since the epoch")
        if min(numbers) < 0 or max(numbers) >= len(group.kinds):
            raise invalid("groups.kind", "must be positions in kinds")
        if group.calls and len(group.calls) != len(times):
            raise invalid("groups.calls", "must be empty, or as long as times")
        if group.calls and not 1 <= min(group.calls) <= max(group.calls) <= _MOST_CALLS:
            raise invalid("groups.calls", f"must be numbers from 1 to {_MOST_CALLS}")
