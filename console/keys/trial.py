"""Dry run of a call with a key: the verdict of each admission check, in words for administrators."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final, NamedTuple

from console.rendering.times import utc_text
from console.visit import TryCall
from contract.call_trials import CheckName, CheckOutcome, TrialCall
from contract.fields import SCOPE_SPELLINGS
from contract.refusals import Refusal
from contract.routes import BASE, RouteTable
from contract.times import milliseconds_of
from workflow_api.v1.deployment_pb2 import Deployment
from workflow_api.v1.edge_pb2 import KeyMirror, MirroredKey
from workflow_api.v1.keys_pb2 import KeyRecord
from workflow_api.v1.usage_pb2 import UsageRecord

_QUESTIONS: Final[Mapping[CheckName, str]] = {
    CheckName.ROUTE: "Does the route exist?",
    CheckName.DEPLOYMENT: "Does the deployment serve keys?",
    CheckName.CREDENTIALS: "Is the key valid?",
    CheckName.SOURCE: "Is the address allowed?",
    CheckName.HOUR: "Is the hour allowed?",
    CheckName.RATE_LIMIT: "Is there room in the minute, if no other call is made in it?",
    CheckName.SCOPE: "Does the key have the scope of the route?",
}
_CLOSED: Final[Mapping[str, str]] = {
    "not_governed": "The deployment is not governed, and serves no key.",
    "not_enabled": "The API of this deployment is switched off.",
}


_START: Final = "/workflow_api.v1.RunsService/StartRun"


class Verdict(NamedTuple):
    """Verdict of one check: its question, whether the call passed, and the reason if not."""

    asks: str
    passed: bool
    why: str = ""


@cache
def routes() -> RouteTable:
    """Returns the routes of the API."""
    return RouteTable()


def route_choices() -> list[tuple[str, str]]:
    """Returns every route as a choice, such as `GET /runs/{run_id}`."""
    return [(text, text) for text in (f"{each.method} {each.template.removeprefix(BASE)}" for each in routes().routes)]


def is_start(method: str, path: str) -> bool:
    """Returns whether a call starts a run."""
    return routes().match(method, path).route.rpc == _START


async def verdicts(record: KeyRecord, deployment: Deployment, call: TrialCall, try_call: TryCall) -> list[Verdict]:
    """Returns the verdict of each check on a call with a key, up to the first that refuses it."""
    flags = KeyMirror(
        deployment_id=deployment.deployment_id, governed=deployment.governed, api_enabled=deployment.api_enabled
    )
    tried = await try_call(call, _mirrored(record), flags, routes())
    return [
        Verdict(_QUESTIONS[each.check], each.refusal is None, _reason_of(each, record, call))
        for each in tried
        if each.check in _QUESTIONS
    ]


async def explanation(record: KeyRecord, deployment: Deployment, used: UsageRecord, try_call: TryCall) -> str:
    """Returns why a recorded call was refused, in the words of a check; empty where every check passes it now."""
    call = TrialCall(used.method, BASE + used.route, used.address, milliseconds_of(used.at))
    last = (await verdicts(record, deployment, call, try_call))[-1]
    return "" if last.passed else last.why


def _mirrored(record: KeyRecord) -> MirroredKey:
    key = record.key
    return MirroredKey(
        key_id=key.key_id,
        deployment_id=key.deployment_id,
        scopes=key.scopes,
        source_allow_list=record.source_allow_list,
        allowed_hours=record.allowed_hours if record.HasField("allowed_hours") else None,
        expires_at=key.expires_at,
        rate_limit_rpm=key.rate_limit_rpm,
        revoked=record.state == "revoked",
    )


def _reason_of(tried: CheckOutcome, record: KeyRecord, call: TrialCall) -> str:
    """Returns why a check refuses a call, with the deciding values; empty where the check passes."""
    refusal = tried.refusal
    if refusal is None:
        return ""
    worded = _REASONS.get(tried.check)
    return refusal.message if worded is None else worded(refusal, record, call)


def _deployment_reason(refusal: Refusal, _: KeyRecord, __: TrialCall) -> str:
    return _CLOSED.get(_details(refusal).get("reason", ""), refusal.message)


def _credentials_reason(_: Refusal, record: KeyRecord, call: TrialCall) -> str:
    if record.state == "revoked":
        return f"The key was revoked at {utc_text(milliseconds_of(record.revoked_at))}."
    expires = milliseconds_of(record.key.expires_at)
    if call.at_ms >= expires:
        return f"The key expired at {utc_text(expires)}."
    return f"The key is bound to the deployment {record.key.deployment_id}, not to this one."


def _source_reason(_: Refusal, record: KeyRecord, call: TrialCall) -> str:
    return f"{call.address or 'An unknown address'} is not in {', '.join(record.source_allow_list)}."


def _hour_reason(refusal: Refusal, _: KeyRecord, call: TrialCall) -> str:
    hours = _details(refusal)["valid_hours_utc"]
    at = datetime.fromtimestamp(call.at_ms / 1000, UTC).strftime("%H:%M")
    return f"{at} is outside {hours['start_hour']:02}:00 to {hours['end_hour']:02}:00 UTC."


def _scope_reason(_: Refusal, record: KeyRecord, call: TrialCall) -> str:
    route = routes().match(call.method, call.path).route
    scopes = ", ".join(SCOPE_SPELLINGS[scope] for scope in record.key.scopes)
    return f"The route requires {SCOPE_SPELLINGS[route.scope]}; the key has {scopes}."


def _details(refusal: Refusal) -> Mapping[str, Any]:
    return refusal.details if isinstance(refusal.details, dict) else {}


_REASONS: Final[Mapping[CheckName, Callable[[Refusal, KeyRecord, TrialCall], str]]] = {
    CheckName.DEPLOYMENT: _deployment_reason,
    CheckName.CREDENTIALS: _credentials_reason,
    CheckName.SOURCE: _source_reason,
    CheckName.HOUR: _hour_reason,
    CheckName.SCOPE: _scope_reason,
}
