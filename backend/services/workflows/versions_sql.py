"""SQL of workflow versions: definitions, and pinned versions of agents and environments."""

from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    Select,
    Text,
    bindparam,
    cast,
    func,
    insert,
    literal_column,
    select,
)

from backend.services.workflows.rules import ResourceKey
from backend.storage.database import Tx
from backend.storage.statements import Command, Query, ScalarQuery
from backend.storage.tables.workflows import (
    resource_versions,
    resources,
    workflow_version_resources,
    workflow_versions,
    workflows,
)


class Pin(NamedTuple):
    """The pinned version of an agent or environment; id and version are None if the name did not exist."""

    kind: str
    name: str
    resource_id: str | None
    version: int | None

    @property
    def key(self) -> ResourceKey:
        """Kind and name."""
        return self.kind, self.name


Pins = dict[ResourceKey, Pin]


class NewestPinRow(NamedTuple):
    """A pin of a workflow's newest version."""

    workflow_id: str
    kind: str
    name: str
    resource_id: str | None
    version: int | None


class PinnedRow(NamedTuple):
    """An agent or environment with the definition of its pinned version."""

    kind: str
    name: str
    resource_id: str
    version: int
    definition: str


_SHARED = workflow_versions.alias("shared")
_DEFINITION_VERSION = func.coalesce(workflow_versions.c.definition_version, workflow_versions.c.version)


def _of_shared(column: Column[str]) -> Select[str]:
    """Returns a query for a column of the row that has the definition of a version."""
    return (
        select(column)
        .select_from(workflow_versions)
        .join(
            _SHARED,
            (_SHARED.c.workflow_id == workflow_versions.c.workflow_id) & (_SHARED.c.version == _DEFINITION_VERSION),
        )
        .where(
            workflow_versions.c.workflow_id == bindparam("workflow_id"),
            workflow_versions.c.version == bindparam("version", type_=BigInteger),
        )
    )


_DEFINITION = ScalarQuery[str](_of_shared(_SHARED.c.definition))
_VARIABLES = ScalarQuery[str](_of_shared(_SHARED.c.variables))
_ADD = Command(insert(workflow_versions), [column.name for column in workflow_versions.columns])
_ADD_SHARING = Command(
    insert(workflow_versions).from_select(
        ["workflow_id", "version", "definition", "definition_version", "created_at"],
        select(
            workflow_versions.c.workflow_id,
            cast(bindparam("version", required=True), Integer),
            cast(literal_column("''"), Text),
            _DEFINITION_VERSION,
            cast(bindparam("created_at", required=True), BigInteger),
        ).where(
            workflow_versions.c.workflow_id == bindparam("of_workflow_id"),
            workflow_versions.c.version == bindparam("of_version"),
        ),
    )
)

_PIN = (
    workflow_version_resources.c.kind,
    workflow_version_resources.c.name,
    workflow_version_resources.c.resource_id,
    workflow_version_resources.c.resource_version.label("version"),
)
_OF_VERSION = (
    workflow_version_resources.c.workflow_id == bindparam("workflow_id"),
    workflow_version_resources.c.version == bindparam("version"),
)
_ADD_PIN = Command(insert(workflow_version_resources), [column.name for column in workflow_version_resources.columns])
_PINS = Query(Pin, select(*_PIN).where(*_OF_VERSION).order_by(*_PIN[:2]))
_NEWEST_PINS = Query(
    NewestPinRow,
    select(workflows.c.workflow_id, *_PIN)
    .join(
        workflow_version_resources,
        (workflow_version_resources.c.workflow_id == workflows.c.workflow_id)
        & (workflow_version_resources.c.version == workflows.c.newest_version),
    )
    .where(workflows.c.deleted_at.is_(None)),
)
_PRESENT_PINS = Query(
    Pin,
    select(resources.c.kind, resources.c.name, resources.c.resource_id, resources.c.version).where(
        resources.c.kind.in_([literal_column("'agent'"), literal_column("'environment'")])
    ),
)
_PINNED = Query(
    PinnedRow,
    select(*_PIN, resource_versions.c.definition)
    .join(
        resource_versions,
        (resource_versions.c.resource_id == workflow_version_resources.c.resource_id)
        & (resource_versions.c.version == workflow_version_resources.c.resource_version),
    )
    .where(*_OF_VERSION),
)
_OF_RESOURCE_VERSION = (
    resource_versions.c.resource_id == bindparam("resource_id"),
    resource_versions.c.version == bindparam("version"),
)
_RESOURCE_DEFINITION = ScalarQuery[str](select(resource_versions.c.definition).where(*_OF_RESOURCE_VERSION))
# The code of agents may have 8 MiB: what can have no tools is not read.
_DEFINITION_WITH_TOOLS = ScalarQuery[str](
    select(resource_versions.c.definition).where(
        *_OF_RESOURCE_VERSION, resource_versions.c.definition.like(literal_column("'%\"tools\":[%'"))
    )
)


def definition_text(tx: Tx, workflow_id: str, version: int) -> str | None:
    """Returns the canonical JSON of a version, or None."""
    if version >= 2**31:
        return None
    return tx.scalar(_DEFINITION, workflow_id=workflow_id, version=version)


def variables_text(tx: Tx, workflow_id: str, version: int) -> str | None:
    """Returns the values of the variables of a version's definition as JSON; None where it uses none."""
    return None if version >= 2**31 else tx.scalar(_VARIABLES, workflow_id=workflow_id, version=version)


def add_version(
    tx: Tx,
    workflow_id: str,
    version: int,
    *,
    definition: str | None,
    pins: Iterable[Pin],
    now: int,
    shared_with: int | None = None,
    variables: str | None = None,
) -> None:
    """Writes a version; without `definition` it shares that of version `shared_with`, by default the previous one.

    `variables` are the values of the definition's variables as JSON.
    """
    if definition is None:
        of_version = version - 1 if shared_with is None else shared_with
        tx.enqueue(_ADD_SHARING, version=version, of_workflow_id=workflow_id, of_version=of_version, created_at=now)
    else:
        tx.enqueue(
            _ADD,
            workflow_id=workflow_id,
            version=version,
            definition=definition,
            definition_version=None,
            created_at=now,
            variables=variables,
        )
    tx.many(
        _ADD_PIN,
        [
            {
                "workflow_id": workflow_id,
                "version": version,
                "kind": pin.kind,
                "name": pin.name,
                "resource_id": pin.resource_id,
                "resource_version": pin.version,
            }
            for pin in pins
        ],
    )


def pins_of(tx: Tx, workflow_id: str, version: int) -> Pins:
    """Returns the pins of a workflow version, by kind and name."""
    return _by_key(tx.all(_PINS, workflow_id=workflow_id, version=version))


def newest_pins(tx: Tx) -> dict[str, Pins]:
    """Returns the pins of every workflow's newest version, by workflow id."""
    found: dict[str, Pins] = {}
    for workflow_id, *columns in tx.all(_NEWEST_PINS):
        pin = Pin._make(columns)
        found.setdefault(workflow_id, {})[pin.key] = pin
    return found


def present_pins(tx: Tx) -> Pins:
    """Returns pins to the newest version of every agent and environment."""
    return _by_key(tx.all(_PRESENT_PINS))


def pinned_resources(tx: Tx, workflow_id: str, version: int) -> list[PinnedRow]:
    """Returns the existing agents and environments that a version is pinned to, with the pinned definitions."""
    return tx.all(_PINNED, workflow_id=workflow_id, version=version)


def resource_definition(tx: Tx, pin: Pin) -> str:
    """Returns the definition of a pinned version, which must exist."""
    return tx.scalar_one(_RESOURCE_DEFINITION, resource_id=pin.resource_id, version=pin.version)


def definition_with_tools(tx: Tx, pin: Pin) -> str | None:
    """Returns the definition of the version of an agent that may have tools; None for one without any."""
    return tx.scalar(_DEFINITION_WITH_TOOLS, resource_id=pin.resource_id, version=pin.version)


def _by_key(pins: Iterable[Pin]) -> Pins:
    return {pin.key: pin for pin in pins}
