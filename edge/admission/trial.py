"""Dry run of the admission checks for a hypothetical call: the outcome of each check."""

from contextlib import suppress
from hashlib import sha256
from typing import Final, cast

from aiohttp import EMPTY_PAYLOAD
from multidict import CIMultiDict

from contract.call_trials import CheckOutcome, TrialCall
from contract.refusals import Refusal
from contract.routes import RouteTable
from edge.admission.call import AdmissionDeps, Call
from edge.admission.checks import CHECKS, PreflightAnswer
from edge.admission.keyring import Keyring
from edge.admission.parsing import BodyParser
from edge.admission.rate_limit import LocalRateLimiter
from edge.http.request import ClientConnection, HttpRequest, message_of
from workflow_api.v1.edge_pb2 import KeyMirror, MirroredKey
from workflow_api.v1.options_pb2 import ACCESS_PUBLIC

_SECRET: Final = "the-secret-of-a-call-that-nobody-makes"  # noqa: S105 - it opens nothing
_HASH: Final = sha256(_SECRET.encode()).digest()
_EMPTY: Final = b"{}"


async def try_call(call: TrialCall, key: MirroredKey, mirror: KeyMirror, routes: RouteTable) -> list[CheckOutcome]:
    """Returns the outcomes of the checks for a call with valid credentials of a key, up to the first refusal.

    Args:
        call: The call, as the only one of its minute and with an empty object as its body.
        key: The key; its hashes are ignored.
        mirror: The flags of the deployment; its keys are ignored.
        routes: The routes of the API.
    """
    trusted = MirroredKey(secret_sha256=_HASH, external_id_sha256=_HASH)
    known = MirroredKey()
    known.CopyFrom(key)
    known.MergeFrom(trusted)
    copy = KeyMirror(
        deployment_id=mirror.deployment_id,
        governed=mirror.governed,
        api_enabled=mirror.api_enabled,
        any_key_ever=True,
        keys=[known],
    )
    keyring = Keyring(float("inf"))
    keyring.take(copy, keyring.now())
    credentials = {"Authorization": f"Bearer {key.key_id}.{_SECRET}", "X-Service-Key-External-Id": _SECRET}
    message = message_of(call.method, call.path, CIMultiDict(credentials))
    # No check writes to the connection of a call without a body.
    request = HttpRequest(message, call.method, EMPTY_PAYLOAD, cast("ClientConnection", None))
    deps = AdmissionDeps(
        routes=routes,
        keyring=keyring,
        limiter=LocalRateLimiter(),
        address_of=lambda _: call.address,
        body_seconds=0,
        parsing=BodyParser(),
        clock=lambda: call.at_ms,
    )
    tried = Call(request, deps, call.at_ms)
    tried.raw_body = _EMPTY
    found: list[CheckOutcome] = []
    for check in CHECKS:
        if check.order and tried.match.route.access == ACCESS_PUBLIC:
            break
        try:
            with suppress(PreflightAnswer):
                pending = check.run(tried)
                if pending is not None:
                    await pending
        except Refusal as refusal:
            return [*found, CheckOutcome(check.name, refusal)]
        found.append(CheckOutcome(check.name, None))
    return found
