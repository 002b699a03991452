"""Principal of a call: read from the metadata once, and checked before the call does anything."""

import re
from collections.abc import Callable
from time import monotonic
from typing import Any, Final, Protocol

import grpc
from google.protobuf.message import Message

from backend.common.errors import ApiError, invalid
from backend.common.principal import Principal
from backend.common.waits import KeyChanges
from backend.rpc.validation import validate
from contract.metadata import ACTOR, KEY_ID, PERSON, REQUEST_ID, decode_actor
from workflow_api.v1.errors_pb2 import ERROR_REASON_UNAUTHORIZED

# Metadata with one value a call: a call must not be checked by one of two values and carried out by the other.
_ONCE: Final = (KEY_ID, ACTOR, PERSON)
_ONE_WORD: Final = re.compile(r"[!-~]{1,128}")
# Time within which a key that another process deleted becomes unknown in this process.
_KNOWN_SECONDS: Final = 30.0
_INTERNAL: Final = "internal"

Identify = Callable[[grpc.ServicerContext], Principal]
Admit = Callable[[Message, grpc.ServicerContext], None]


class Guard(Protocol):
    """Decides by roles whether a person who has signed in to a console may make a call."""

    def __call__(self, person: str, rpc: str, request: Message) -> frozenset[str] | None:
        """Returns the workflows that the call is limited to, or None for all; raises ApiError if it is not allowed."""
        ...


def admission(identify: Identify, guard: Guard | None, rpc: str) -> Admit:
    """Returns the checks before a method: the caller, the bounds of the request, and the rights of a person.

    `guard` decides what people may call; without one they may call anything.
    """

    def admit(request: Message, context: grpc.ServicerContext) -> None:
        caller = identify(context)
        validate(request)
        if guard is not None and caller.person is not None:
            caller = caller._replace(workflow_ids=guard(caller.person, rpc, request))
        context.caller = caller  # type: ignore[attr-defined]  # for `principal_of`

    return admit


def principal_of(context: grpc.ServicerContext) -> Principal:
    """Returns the principal of an admitted call; for other calls, the principal that its metadata name."""
    admitted: Principal | None = getattr(context, "caller", None)
    if admitted is not None:
        return admitted
    values: dict[str, Any] = dict(context.invocation_metadata() or ())
    return Principal(values.get(KEY_ID), values.get(ACTOR, _INTERNAL), values.get(REQUEST_ID, ""), values.get(PERSON))


def read_principal(context: grpc.ServicerContext) -> Principal:
    """Reads the principal of a call from its metadata.

    Raises:
        ApiError: `invalid_request` if the key's id is empty, blank or no ASCII word, metadata are repeated, or the
        actor has unreadable escapes.
    """
    metadata = context.invocation_metadata() or ()
    values: dict[str, Any] = dict(metadata)
    if len(values) < len(metadata):
        names = [name for name, _ in metadata]
        for name in _ONCE:
            if names.count(name) > 1:
                raise invalid(name, "must be given only once")
    actor = values.get(ACTOR, _INTERNAL)
    if "%" in actor:
        try:
            actor = decode_actor(actor)
        except ValueError:
            raise invalid(ACTOR, "must be ASCII, with other printable characters as percent-encoded UTF-8") from None
    key_id = values.get(KEY_ID)
    if key_id is not None and not _ONE_WORD.fullmatch(key_id):
        raise invalid(KEY_ID, "must be the id of a key, as ak_0123456789ab; a call for no key leaves it out")
    return Principal(key_id, actor, values.get(REQUEST_ID, ""), values.get(PERSON))


class CallingKeys:
    """Refuses calls that name a key which does not exist, with one read for each key while no key changes."""

    def __init__(self, exists: Callable[[str], bool], changes: KeyChanges) -> None:
        self._exists = exists
        self._changes = changes
        self._known: set[str] = set()
        self._known_at = (-1, 0.0)

    def identify(self, context: grpc.ServicerContext) -> Principal:
        """Returns the principal; raises ApiError as `read_principal`, and `unauthorized` for an unknown key."""
        caller = read_principal(context)
        if caller.key_id is None:
            return caller
        changes, began = self._known_at
        present = self._changes.count
        if changes != present or monotonic() - began > _KNOWN_SECONDS:
            self._known, self._known_at = set(), (present, monotonic())
        known = self._known
        if caller.key_id not in known:
            if not self._exists(caller.key_id):
                raise ApiError(ERROR_REASON_UNAUTHORIZED)
            known.add(caller.key_id)
        return caller
