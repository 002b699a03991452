"""Checks of package versions, the database's schema, and optional parts that settings and definitions need."""

import importlib.util
import json
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple

from packaging.requirements import Requirement

from backend.common.optional_parts import CLUSTER, GRAPHS, LLM, OTEL, PARQUET, PII_MODEL, REDACTION, OptionalPart
from backend.storage.factory import known_revisions, newest_revision
from deploy.doctor.examination import ExaminedPart, Finding, ServingPart, failed, ok, warning
from redaction.policy import LOCAL

FindingFactory = Callable[[str, str, str], Finding]
"""Makes a finding about a missing part; its arguments are the finding's name, message and remedy."""

_PACKAGE: Final = "workflow-api"
PINS: Final = Path(__file__).parents[2] / "requirements" / "image.txt"
"""Pins of all optional parts, if the service runs from a checkout."""


def check_software(examined: ExaminedPart) -> Iterator[Finding]:
    """Checks the release, the packages that it requires, and the optional parts that the settings need."""
    release, grpc = metadata.version(_PACKAGE), metadata.version("grpcio")
    wrong = list(_wrong_packages())
    if wrong:
        yield failed(
            "packages", f"Packages are not as this release needs them: {', '.join(wrong)}.", "Install it anew."
        )
    else:
        yield ok("packages", f"Release {release} with Python {platform.python_version()} and grpcio {grpc}.")
    settings = examined.settings
    if examined.part.has_data:
        if settings.backend.database is not None or settings.runtime.engine == "dbos":
            yield optional_part(CLUSTER, "PostgreSQL and the engine dbos")
        if settings.models:
            yield optional_part(LLM, "[models] of the settings")
    if settings.traces.endpoint is not None and examined.part is not ServingPart.CONSOLE:
        yield optional_part(OTEL, "spans that go to traces.endpoint")


def optional_part(part: OptionalPart, what: str, make_finding: FindingFactory = failed) -> Finding:
    """Checks an optional part; `what` names its user."""
    if not part.installed:
        return make_finding(
            "optional parts",
            f"The optional part `{part.name}` is not installed, which {what} need.",
            _installs(part),
        )
    return ok("optional parts", f"The optional part `{part.name}` is installed.")


def _installs(part: OptionalPart) -> str:
    """Returns the remedy for a missing part, with the pins of this release if there is a file of them."""
    if importlib.util.find_spec("pip") is None:
        return (
            f"Use an image that was built with REQUIREMENTS=image, or run with another environment's pip: "
            f"{_command(f'pip --python {sys.prefix}', 'requirements/image.txt')}."
        )
    pip = f"{sys.executable} -m pip"
    if PINS.is_file():
        return f"Run: {_command(pip, str(PINS))}"
    return (
        f"Run in the sources of release {metadata.version(_PACKAGE)}: {_command(pip, 'requirements/image.txt')} - "
        f"or, without pins: {pip} install 'workflow-api[{part.name}]'"
    )


def _command(pip: str, pins: str) -> str:
    return f"{pip} install --no-deps --require-hashes -r {pins}"


def _wrong_packages() -> Iterator[str]:
    for line in metadata.requires(_PACKAGE) or ():
        requirement = Requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            found = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            yield f"{requirement.name} is missing"
            continue
        if not requirement.specifier.contains(found, prereleases=True):
            yield f"{requirement.name} {found} is not {requirement.specifier}"


Definition = Mapping[str, Any]
Rows = Callable[[str], Iterable[tuple[object, ...]]]
"""Reads the rows of a query."""

_WORKFLOWS: Final = """
SELECT workflows.name, written.definition FROM workflows
JOIN workflow_versions AS active
    ON active.workflow_id = workflows.workflow_id AND active.version = workflows.active_version
JOIN workflow_versions AS written
    ON written.workflow_id = active.workflow_id
    AND written.version = coalesce(active.definition_version, active.version)
WHERE workflows.status = 'active' ORDER BY workflows.name"""
_AGENTS: Final = "SELECT name, definition FROM resources WHERE kind = 'agent' ORDER BY name"


def schema_check(schema: str) -> Finding:
    """Compares the revision of a database with this release."""
    newest = newest_revision()
    if schema == newest:
        return ok("schema", f"The database has schema {schema}, that of this release.")
    if schema in known_revisions():
        return warning(
            "schema",
            f"The database has schema {schema}, and this release {newest}.",
            "Back up; the next start of a backend migrates it.",
        )
    remedy = "Run the release that has migrated it, or a newer one; or restore a backup of before that."
    return failed("schema", f"The database has schema {schema}, and this release none after {newest}.", remedy)


class _Need(NamedTuple):
    """An optional part, the query of its possible users, the filter of actual ones, and their name in findings."""

    part: OptionalPart
    query: str
    needs: Callable[[Definition], bool]
    what: str
    make_finding: FindingFactory = failed


def _searches(workflow: Definition) -> bool:
    return bool((workflow["pii_policy"] or {}).get("mode", "off") != "off")


def _model(workflow: Definition) -> str | None:
    # Versions stored by releases without models have no such field.
    model: str | None = workflow["pii_policy"].get("model") if _searches(workflow) else None
    return model


_NEEDS: Final = (
    _Need(REDACTION, _WORKFLOWS, _searches, "PII policies of active workflows"),
    # Such a workflow runs, and its Parquet files are withheld.
    _Need(PARQUET, _WORKFLOWS, _searches, "PII policies of active workflows for Parquet files", warning),
    _Need(PII_MODEL, _WORKFLOWS, lambda workflow: _model(workflow) == LOCAL, "PII policies with `model: local`"),
    _Need(
        LLM, _WORKFLOWS, lambda workflow: _model(workflow) not in {None, LOCAL}, "PII policies with a language model"
    ),
    _Need(LLM, _AGENTS, lambda agent: bool(agent["type"] == "llm"), "agents of type llm"),
    _Need(GRAPHS, _WORKFLOWS, lambda workflow: bool(workflow["publish"]), "active workflows that publish to a graph"),
)
"""Parts without which a workflow is not ready, its steps fail, or its files are withheld."""


def needed_parts(rows: Rows) -> Iterator[Finding]:
    """Checks the optional parts that active workflows and agents need; each finding names one of these."""
    first: dict[_Need, str] = {}
    for query in dict.fromkeys(need.query for need in _NEEDS):
        for name, text in rows(query):
            definition = json.loads(str(text))
            for need in _NEEDS:
                if need.query == query and need not in first and need.needs(definition):
                    first[need] = str(name)
    for need, name in first.items():
        yield optional_part(need.part, f"{need.what}, such as '{name}',", need.make_finding)
