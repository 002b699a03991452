"""Fields of schedules in workflows, and the check of their parameters by the workflow's declarations."""

from collections.abc import Iterator
from typing import Any, Final

from backend.common.json_text import JsonObject
from backend.services.workflows.cron import LONGEST, cron_expression, time_zone
from backend.services.workflows.manifests.nodes import DocumentNode
from backend.services.workflows.manifests.records import HANDLE, Field, ListOf, Record
from backend.services.workflows.manifests.shapes import CheckedValue, Flag, JsonSchema, OneOf
from backend.services.workflows.parameters import value_problems

MOST_SCHEDULES: Final = 20
OVERLAPS: Final = ("skip", "queue", "allow")
CATCH_UPS: Final = ("none", "latest")
_MOST_PARAMETERS: Final = 1_000


class _ParameterValues:
    """Values of parameters by name, which `schedule_problems` validates by the declarations."""

    def read(self, node: DocumentNode, name: str, problems: list[Any]) -> object:
        """Reads an object with parameter values."""
        return CheckedValue(_values, {}).read(node, name, problems)

    def json_schema(self) -> JsonSchema:
        """Returns the schema of an object."""
        return {"type": "object", "maxProperties": _MOST_PARAMETERS}


def _values(value: Any) -> Any:
    if isinstance(value, dict) and len(value) <= _MOST_PARAMETERS:
        return value
    raise ValueError("must be an object with the values of parameters by their names")


SCHEDULE: Final = Record(
    {
        "name": Field(HANDLE, required=True, about="Name, unique within the workflow.", example="nightly"),
        "cron": Field(
            CheckedValue(cron_expression, {"type": "string", "minLength": 1, "maxLength": LONGEST}),
            required=True,
            about="Five fields (minute, hour, day of month, month, day of week), or `@daily` and the like.",
            example="0 2 * * *",
        ),
        "timezone": Field(
            CheckedValue(time_zone, {"type": "string", "minLength": 1}),
            default="UTC",
            about="Time zone of `cron`, by its name in the IANA database.",
            example="Europe/Madrid",
        ),
        "parameters": Field(
            _ParameterValues(), default={}, about="Values of the workflow's parameters.", example={"language": "en"}
        ),
        "overlap": Field(
            OneOf(*OVERLAPS),
            default="skip",
            about="What becomes of a due time while a run of the schedule is in flight: "
            "`skip` leaves it out, `queue` lets one wait for the end of that run, `allow` starts it beside.",
            example="queue",
        ),
        "catch_up": Field(
            OneOf(*CATCH_UPS),
            default="none",
            about="What becomes of due times at which nothing ran: `none` leaves them out, `latest` starts the newest.",
            example="latest",
        ),
        "paused": Field(Flag(), default=False, about="Whether it starts nothing.", example=True),
    }
)

SCHEDULES: Final = Field(
    ListOf(SCHEDULE, most=MOST_SCHEDULES),
    default=[],
    about="When runs start by themselves, while the version is the active one.",
    example=[{"name": "nightly", "cron": "0 2 * * *"}],
)

_Violation = tuple[tuple[str | int, ...], str]


def schedule_problems(definition: JsonObject) -> Iterator[_Violation]:
    """Yields the path and the reason of each value that does not fit the workflow's parameters."""
    declared = definition.get("parameters")
    if declared is None or not all(isinstance(one, dict) and one.get("name") and one.get("type") for one in declared):
        # Invalid parameters are reported with their declarations.
        return
    by_name = {one["name"]: one for one in declared}
    for index, schedule in enumerate(definition.get("schedules") or ()):
        if not isinstance(schedule, dict) or not isinstance(given := schedule.get("parameters"), dict):
            continue
        at = ("schedules", index, "parameters")
        for name, value in given.items():
            if name not in by_name:
                known = f"must be one of: {', '.join(by_name)}" if by_name else "must not be there: there is none"
                yield (*at, name), f"names no parameter of the workflow; {known}"
            elif value is not None or by_name[name]["type"] == "json":
                yield from (((*at, name), reason) for reason in value_problems(by_name[name], value))
        for name, one in by_name.items():
            if one.get("required") and one.get("default") is None and given.get(name) is None:
                yield at, f"must have a value of {name}, which is required"
