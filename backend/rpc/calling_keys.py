"""Judges the key that a call names in its metadata, before anything else of the call."""

import re
from collections.abc import Callable
from time import monotonic
from typing import Final

import grpc

from backend.errors import ApiError, invalid
from backend.key_changes import KeyChanges
from contract.metadata import ACTOR, KEY_ID, PERSON
from workflow_api.v1.errors_pb2 import ERROR_REASON_UNAUTHORIZED

# Of each a call has one value: what would be judged by one of two must not be done by the other.
_ONCE: Final = (KEY_ID, ACTOR, PERSON)
_ONE_WORD: Final = re.compile(r"[!-~]{1,128}")
# How soon a key that another process deleted is unknown here.
_KNOWN_SECONDS: Final = 30.0


def named_key(context: grpc.ServicerContext) -> str | None:
    """Returns the id of the key that a call names, None where it names none.

    Raises:
        ApiError: `invalid_request`, of an id that is empty, blank or no word of ASCII, and of repeated metadata.
    """
    names = [name for name, _ in context.invocation_metadata() or ()]
    for name in _ONCE:
        if names.count(name) > 1:
            raise invalid(name, "must be given only once")
    if KEY_ID not in names:
        return None
    key_id = str(dict(context.invocation_metadata())[KEY_ID])
    if not _ONE_WORD.fullmatch(key_id):
        raise invalid(KEY_ID, "must be the id of a key, as ak_0123456789ab; a call for no key leaves it out")
    return key_id


class CallingKeys:
    """Refuses calls that name a key which does not exist, with one read for each key while no key changes."""

    def __init__(self, exists: Callable[[str], bool], changes: KeyChanges) -> None:
        self._exists = exists
        self._changes = changes
        self._known: set[str] = set()
        self._known_at = (-1, 0.0)

    def check(self, context: grpc.ServicerContext) -> None:
        """Raises ApiError as `named_key`, and `unauthorized` for an unknown key."""
        key_id = named_key(context)
        if key_id is not None and not self._is_known(key_id):
            raise ApiError(ERROR_REASON_UNAUTHORIZED)

    def _is_known(self, key_id: str) -> bool:
        changes, began = self._known_at
        present = self._changes.count()
        if changes != present or monotonic() - began > _KNOWN_SECONDS:
            self._known, self._known_at = set(), (present, monotonic())
        known = self._known
        if key_id not in known:
            if not self._exists(key_id):
                return False
            known.add(key_id)
        return True
