"""Checks of `[notifications]`: targets that operators are notified at."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from string import Template
from typing import Any, Final

from backend.common.secrets import NAME as SECRET_NAME
from backend.settings import NOTIFICATION_EVENTS, NOTIFICATION_NAMES, NotificationTarget

_KINDS: Final = ("email", "slack", "teams")
_MAILBOX: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}")
# `from` is a word of Python.
_FIELDS: Final[Mapping[str, str]] = {
    {"sender": "from"}.get(field.name, field.name): field.name for field in fields(NotificationTarget)
}
_MOST_TEMPLATE: Final = 2_000
_MOST_ENTRIES: Final = 50


def notification_target(name: str, value: object) -> NotificationTarget:
    """Reads one target; the ValueError names the field, and quotes no address."""
    if not SECRET_NAME.fullmatch(name):
        raise ValueError("must have a name of 1 to 64 of A-Z a-z 0-9 _ -")
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a table: [notifications.{name}]")  # noqa: TRY004 - a setting that is not valid
    _check_names(value)
    given: dict[str, Any] = {_FIELDS[field]: content for field, content in value.items()}
    for field in ("events", "workflows", "to"):
        if field in given:
            given[field] = _texts(field, given[field])
    _check_events(given.get("events", ()))
    _check_mailboxes(given)
    for field in ("subject", "text"):
        if field in given:
            _check_template(field, given[field])
    return NotificationTarget(**given)


def _check_names(value: Mapping[str, Any]) -> None:
    for unknown in value.keys() - _FIELDS.keys():
        raise ValueError(f"must not have {unknown}: its fields are {', '.join(_FIELDS)}")
    if value.get("kind") not in _KINDS:
        raise ValueError(f"must have as kind {', '.join(_KINDS[:-1])} or {_KINDS[-1]}")
    if not isinstance(value.get("url"), str) or not SECRET_NAME.fullmatch(value["url"]):
        # The value is not quoted: it may be the address itself.
        raise ValueError("must have as url the name of a secret that [secrets] holds")


def _check_events(events: Sequence[str]) -> None:
    if not events:
        raise ValueError("must have events, a list of those that it gets")
    for event in events:
        if event not in NOTIFICATION_EVENTS:
            raise ValueError(f"must have as events some of {', '.join(NOTIFICATION_EVENTS)}; '{event}' is none")


def _check_mailboxes(given: Mapping[str, Any]) -> None:
    if given["kind"] != "email":
        if "sender" in given or "to" in given:
            raise ValueError("must not have from and to: they are for e-mail")
        return
    sender = given.get("sender")
    if not isinstance(sender, str) or not _MAILBOX.fullmatch(sender):
        raise ValueError("must have as from an address such as workflows@example.org")
    if not given.get("to") or not all(_MAILBOX.fullmatch(each) for each in given["to"]):
        raise ValueError('must have as to a list of addresses, such as ["operators@example.org"]')


def _texts(field: str, content: object) -> tuple[str, ...]:
    if (
        not isinstance(content, list)
        or len(content) > _MOST_ENTRIES
        or not all(isinstance(each, str) and each for each in content)
    ):
        raise ValueError(f"must have as {field} a list of at most {_MOST_ENTRIES} texts")
    return tuple(content)


def _check_template(field: str, content: object) -> None:
    if not isinstance(content, str) or not 0 < len(content) <= _MOST_TEMPLATE:
        raise ValueError(f"must have as {field} a text of at most {_MOST_TEMPLATE:,} characters")
    template = Template(content)
    if not template.is_valid():
        raise ValueError(f"must have in {field} a $ only before a name in braces, such as ${{run_id}}, or as $$")
    for unknown in set(template.get_identifiers()) - set(NOTIFICATION_NAMES):
        known = ", ".join(NOTIFICATION_NAMES)
        raise ValueError(f"must not use ${{{unknown}}} in {field}: names are {known}")
