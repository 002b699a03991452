"""English sentences for audit records: a table from action to sentence, with the names of details in braces.

Each sentence begins with who did it, which the page adds. Text in square brackets is left out where a detail in it is
missing. `name` is the record's subject where the details name nothing.
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from console.rendering.text import short
from console.rendering.times import utc_text

_RESOURCES: Final = {
    "agent": "agent",
    "connector": "connector",
    "environment": "environment",
    "knowledge_graph": "knowledge graph",
    "workflow": "workflow",
}
_PARTS: Final = {"system": "The service", "console": "The console"}
_FACTOR: Final = "[ with {by}][ from {address}]"
_DECIDED: Final = "[“{title}” of {workflow}, ]an approval[ of run {run_id}][: “{comment}”]"

SENTENCES: Final[Mapping[str, str]] = {
    "approval.approved": f"approved {_DECIDED}",
    "approval.assigned": "took over an approval[ of run {run_id}]",
    "approval.expired": f"ended, as its deadline had passed, {_DECIDED}",
    "approval.rejected": f"rejected {_DECIDED}",
    "approval.snoozed": "snoozed an approval[ of run {run_id}][ until {until}]",
    "approval.unassigned": "gave back an approval[ of run {run_id}]",
    "approval.woken": "woke an approval[ of run {run_id}]",
    "audit.exported": "exported the audit trail",
    "connector.tested": "tested the connector {name}[: passed {passed}]",
    "deployment.changed": "changed {changes} of the deployment",
    "environment.build_requested": "asked for a build of the environment {name}[, version {version}]",
    "key.created": "created the key {name}",
    "key.deleted": "deleted the key {name}",
    "key.edited": "changed {changes} of the key {name}",
    "key.external_id_issued": "issued a new external id for the key {name}",
    "key.overlap_ended": "ended the overlap of two secrets of the key {name}",
    "key.revoked": "revoked the key {name}",
    "key.rotated": "issued a new secret for the key {name}",
    "objects.removed": "removed {objects} objects that no row named[, of {bytes} bytes]",
    "run.cancel_requested": "asked for the run {name} to be cancelled",
    "run.erased": "erased the data of the run {name}[, after {retention_days} days]",
    "run.inputs_revealed": "looked at the inputs of the run {name} as given",
    "run.started": "started the run {name}[ of workflow {workflow}]"
    "[, by the schedule {schedule}][, from {resumed_from}]",
    "schedule.cancelled": "cancelled a planned start of workflow {name}[ at {at}]",
    "schedule.failed": "could not start a run by the schedule {schedule}[, due {due_at}][: {reason}]",
    "schedule.paused": "paused the schedule {schedule}[ of workflow {name}]",
    "schedule.planned": "planned a start of workflow {name}[ at {at}]",
    "schedule.resumed": "resumed the schedule {schedule}[ of workflow {name}]",
    "schedule.skipped": "skipped a due time of the schedule {schedule}[, {due_at}][: {reason}]",
    "secret.used": "gave the secrets {secrets} to step {step}[ of run {name}]",
    "user.added": "added {name}[ as {role}]",
    "user.disabled": "disabled {name}",
    "user.enabled": "enabled {name}",
    "user.passkey_added": "added the passkey {passkey}[ for {name}]",
    "user.passkey_removed": "removed the passkey {passkey}[ of {name}]",
    "user.passkeys_reset": "removed all passkeys of {name}",
    "user.password_changed": "changed the password of {name}",
    "user.password_reset": "issued a new password for {name}",
    "user.recovery_codes_made": "made new recovery codes for {name}",
    "user.role_changed": "changed the role of {name}[ from {from}][ to {role}]",
    "user.second_factor_refused": "refused the second factor of {name}" + _FACTOR,
    "user.sign_in_refused": "refused a sign-in as {name}" + _FACTOR + "[: {reason}]",
    "user.signed_in": "signed {name} in" + _FACTOR,
    "user.signed_out": "signed {name} out",
    "webhook.created": "created the webhook {name}[ of key {key_id}]",
    "webhook.deleted": "deleted the webhook {name}[ of key {key_id}]",
    "webhook.edited": "changed the webhook {name}",
    "webhook.paused": "paused the webhook {name}[: {reason}]",
    "webhook.redelivered": "asked for the message {message_id} to be delivered again to the webhook {name}",
    "webhook.resumed": "resumed the webhook {name}",
    "webhook.rotated": "issued a new secret for the webhook {name}",
    "workflow.status_changed": "set the workflow {name} from {from} to {to}",
    **{f"{kind}.applied": f"saved the {noun} {{name}}[ as version {{version}}]" for kind, noun in _RESOURCES.items()},
    **{f"{kind}.deleted": f"deleted the {noun} {{name}}" for kind, noun in _RESOURCES.items()},
    **{
        f"{kind}.set_changed": f"changed the set of the {noun} {{name}}[ from {{previous_set}}][ to {{set}}]"
        for kind, noun in _RESOURCES.items()
    },
}
"""Templates of sentences, by the action of an audit record."""

_LABELS: Final[Mapping[str, str]] = {
    "api_enabled": "the switch of the API",
    "daily_cost_microusd": "the daily cost in millionths of a dollar",
    "daily_run_quota": "the daily quota of runs",
    "daily_tokens": "the daily tokens",
    "expires_at": "the expiry",
    "governed": "whether it is governed",
    "max_concurrent_runs": "the runs at a time",
    "rate_limit_rpm": "the calls a minute",
    "retention_days": "the days to keep run data",
    "source_allow_list": "the source addresses",
}
_NO_CHANGE: Final = frozenset({"name", "before"})
_MOST_CHARS: Final = 80
_UNKNOWN: Final = "\N{EN DASH}"
_OPTIONAL: Final = re.compile(r"\[([^\]]*)\]")
_FIELD: Final = re.compile(r"\{(\w+)\}")


def person_of(actor: str) -> str:
    """Returns the name of an actor: a person's without the prefix."""
    return _PARTS.get(actor) or actor.removeprefix("user:")


class SentencePart(NamedTuple):
    """Part of a sentence; `run_id` is the run that it names, empty for other parts."""

    text: str
    run_id: str = ""


def audit_sentence(action: str, target: str, details: Mapping[str, Any]) -> Sequence[SentencePart]:
    """Returns the sentence of an audit record without its actor; for an unknown action, the action itself.

    `details` may have names besides the record's own: `workflow`, and `title` and `comment` of an approval.
    """
    template = SENTENCES.get(action)
    if template is None:
        return [SentencePart(f"{action}: {target}")]
    given = {"name": target, **{name: value for name, value in details.items() if value not in (None, "")}}
    if action == "run.started":
        given.setdefault("workflow", given.get("workflow_id", _UNKNOWN))
    if "{changes}" in template:
        given["changes"] = _changes(details)
    whole = _OPTIONAL.sub(lambda part: part[1] if set(_FIELD.findall(part[1])) <= given.keys() else "", template)
    runs = {"run_id", "resumed_from", *(("name",) if action.startswith("run.") else ())}
    parts = []
    for number, text in enumerate(_FIELD.split(whole)):
        value = given.get(text, _UNKNOWN) if number % 2 else text
        run_id = str(value) if number % 2 and text in runs and str(value).startswith("run_") else ""
        parts.append(SentencePart(_text(value) if number % 2 else text, run_id))
    return [part for part in parts if part.text]


def _changes(details: Mapping[str, Any]) -> str:
    """Returns the changed fields with their new values, and the former values where the record has them."""
    before = details.get("before")
    before = before if isinstance(before, dict) else {}
    # The name is of the subject, unless it was changed.
    changed = [name for name in details if name not in _NO_CHANGE or (name == "name" and name in before)]
    parts = [_change(name, details[name], before) for name in changed]
    return ", ".join(parts) or "nothing"


def _change(name: str, value: object, before: Mapping[str, Any]) -> str:
    label = _LABELS.get(name, f"the {name.replace('_', ' ')}")
    shown = [
        utc_text(each) if name.endswith("_at") and isinstance(each, int) else _text(each)
        for each in ([before[name]] if name in before else []) + [value]
    ]
    return f"{label} from {shown[0]} to {shown[1]}" if name in before else f"{label} to {shown[0]}"


def _text(value: object) -> str:
    """Returns a value in words, bounded."""
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, str) and value.startswith("["):
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return short(text or "none", _MOST_CHARS)
