"""Checks of the fake service on starts and list queries, with the messages of the real service."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timezone
from typing import Any, Final, get_args

from workflow_api_client.generated.records import RunStatus
from workflow_api_client.testing.answers import Refused

PARAMETER_TYPES: Final = ("string", "integer", "number", "boolean", "date", "json", "s3_prefix")

_KEY: Final = re.compile(r"[ -~]{1,128}")
_LONGEST_TEXT: Final = 20_000
_MOST_LABELS: Final = 10
_PLAIN: Final[Mapping[str, tuple[type | tuple[type, ...], str]]] = {
    "parameters": (dict, "must be an object"),
    "input_text": (str, "must be a string"),
    "client_reference": (str, "must be a string"),
    "labels": (dict, "must be an object"),
    "pii_policy_override": (dict, "must be an object"),
    "version": (int, "must be an integer"),
}
_VALUES: Final[Mapping[str, tuple[type | tuple[type, ...], str]]] = {
    "string": (str, "must be a string"),
    "integer": (int, "must be an integer"),
    "number": ((int, float), "must be a number"),
    "boolean": (bool, "must be true or false"),
    "date": (str, "must be an ISO 8601 date"),
    "s3_prefix": (str, "must be of the form s3://bucket/prefix/"),
}


def check_start(key: str | None, body: Any) -> None:
    """Raises Refused with every problem of a start's idempotency key and body."""
    problems: dict[str, str] = {}
    if key is None or not _KEY.fullmatch(key):
        problems["Idempotency-Key"] = "must be 1 to 128 printable ASCII characters"
    if not isinstance(body, dict):
        problems["body"] = "must be an object"
        body = {}
    for name, value in body.items():
        if name not in _PLAIN:
            problems[name] = "is not a field of this call"
        elif value is not None and not _is(value, _PLAIN[name][0]):
            problems[name] = _PLAIN[name][1]
    text, reference, labels, version = (
        body.get(name) for name in ("input_text", "client_reference", "labels", "version")
    )
    if isinstance(text, str) and len(text) > _LONGEST_TEXT:
        problems["input_text"] = f"must have at most {_LONGEST_TEXT} characters"
    if isinstance(reference, str) and not re.fullmatch(r"[ -~]{1,256}", reference):
        problems["client_reference"] = "must be 1 to 256 printable ASCII characters"
    if isinstance(labels, dict):
        problems |= dict(_label_problems(labels))
    if isinstance(version, int) and version < 1:
        problems["version"] = "must be at least 1"
    _refuse("invalid_request", problems)


def _label_problems(labels: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if len(labels) > _MOST_LABELS:
        yield "labels", f"must have at most {_MOST_LABELS} entries"
    for name, value in labels.items():
        if not re.fullmatch(r"[ -~]{1,64}", name):
            yield "labels", "must have names of 1 to 64 printable ASCII characters"
        elif not isinstance(value, str) or not re.fullmatch(r"[ -~]{0,256}", value):
            yield f"labels.{name}", "must be at most 256 printable ASCII characters"


def check_parameters(declared: Sequence[Mapping[str, Any]], given: Mapping[str, Any]) -> None:
    """Raises Refused with every parameter that is missing, unknown or invalid by its declaration."""
    by_name = {str(each["name"]): each for each in declared}
    problems = {name: "is not a parameter of the workflow" for name in given if name not in by_name}
    for name, parameter in by_name.items():
        value = given.get(name)
        if name not in given or (value is None and parameter["type"] != "json"):
            if parameter["required"]:
                problems[name] = "is required"
        elif (reason := _misfit(parameter, value)) is not None:
            problems[name] = reason
    _refuse("invalid_parameters", problems)


def page_bounds(query: Mapping[str, str], default: int, most: int) -> int:
    """Returns the limit of a page; raises Refused for an invalid one."""
    limit = query.get("limit") or str(default)
    if not re.fullmatch(r"[0-9]{1,18}", limit) or not 1 <= int(limit) <= most:
        _refuse("invalid_request", {"limit": f"must be from 1 to {most}"})
    return int(limit)


def statuses(query: Mapping[str, str]) -> set[str] | None:
    """Returns the statuses that a list is limited to; raises Refused for an unknown one."""
    if "status" not in query:
        return None
    wanted = {each.strip() for each in query["status"].split(",")}
    if wanted - set(get_args(RunStatus)):
        _refuse("invalid_filter", {"status": f"must be of {', '.join(get_args(RunStatus))}"})
    return wanted


def moment(query: Mapping[str, str], name: str) -> datetime | None:
    """Returns the time of a filter, in UTC if it has no zone; raises Refused for an invalid one."""
    if name not in query:
        return None
    try:
        found = datetime.fromisoformat(query[name].replace("Z", "+00:00"))
    except ValueError:
        _refuse("invalid_filter", {name: "must be an ISO 8601 date and time"})
        raise
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def _misfit(parameter: Mapping[str, Any], value: Any) -> str | None:
    kind = parameter["type"]
    if kind in _VALUES and not _is(value, _VALUES[kind][0]):
        return _VALUES[kind][1]
    if kind == "date":
        try:
            date.fromisoformat(value)
        except ValueError:
            return _VALUES[kind][1]
    if kind == "s3_prefix" and not value.startswith("s3://"):
        return _VALUES[kind][1]
    if parameter.get("enum") is not None and value not in parameter["enum"]:
        return f"must be one of {', '.join(map(str, parameter['enum']))}"
    if parameter.get("minimum") is not None and value < parameter["minimum"]:
        return f"must be at least {parameter['minimum']}"
    if parameter.get("maximum") is not None and value > parameter["maximum"]:
        return f"must be at most {parameter['maximum']}"
    if kind == "string" and not (parameter.get("min_length") or 0) <= len(value) <= (
        len(value) if parameter.get("max_length") is None else parameter["max_length"]
    ):
        return "must have a length within the declared bounds"
    return None


def _is(value: Any, kinds: type | tuple[type, ...]) -> bool:
    # JSON's true is an int to Python.
    if isinstance(value, bool):
        return kinds is bool
    if isinstance(value, float) and kinds is int:
        return value.is_integer()
    return isinstance(value, kinds)


def _refuse(code: str, problems: Mapping[str, str]) -> None:
    if problems:
        raise Refused(code, details=[{"name": name, "reason": reason} for name, reason in problems.items()])
