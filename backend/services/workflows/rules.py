"""Rules of workflows: access of API keys (contract 11.9), and reasons why a version cannot run (11.8)."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from backend.common.deployment_terms import NO_CAPABILITIES, Capabilities
from backend.common.json_text import JsonMapping, JsonObject
from backend.common.secrets import how_to_set
from backend.resources.environments.sql import PackageState
from backend.services.keys import sql as keys_sql
from backend.services.workflows.agent_tools import agent_tools, is_allowed_server, server_tools
from backend.services.workflows.attached_files import attach_patterns, named_step
from backend.services.workflows.pii_policy import why_not_applicable, why_unusable
from backend.storage.database import Tx


@dataclass(frozen=True, slots=True)
class WorkflowAccess:
    """The workflows that a caller may access: a fixed list, or all if `listed` is None.

    `active_only` is set for a key with `all_active`, which may neither start nor read a draft or inactive workflow;
    keys with a list and internal services may read them.
    """

    listed: frozenset[str] | None
    active_only: bool

    def allows(self, workflow_id: str) -> bool:
        """Returns whether the caller has access to the workflow, whatever its status."""
        return self.listed is None or workflow_id in self.listed


EVERYTHING: Final = WorkflowAccess(listed=None, active_only=False)
_ALL_ACTIVE: Final = WorkflowAccess(listed=None, active_only=True)


def access_of(tx: Tx, key_id: str | None) -> WorkflowAccess:
    """Returns the access of a key: nothing for a missing key, everything for an internal caller, `key_id` None."""
    if key_id is None:
        return EVERYTHING
    row = keys_sql.access(tx, key_id)
    if row is None:
        return WorkflowAccess(listed=frozenset(), active_only=True)
    return read_access(row.access_mode, row.access_workflow_ids)


def read_access(mode: str | None, workflow_ids: str | None) -> WorkflowAccess:
    """Parses the stored access of a key, with workflow ids as JSON text; `mode` None means an internal caller."""
    if mode is None:
        return EVERYTHING
    if mode == "all_active":
        return _ALL_ACTIVE
    return WorkflowAccess(listed=frozenset(json.loads(workflow_ids or "[]")), active_only=False)


Definition = JsonMapping
ResourceKey = tuple[str, str]
"""Kind, as in the table, and name of a resource."""

_BY_STATUS: Final[Mapping[str, tuple[str, ...]]] = {
    "active": (),
    "draft": ("The workflow is a draft.",),
    "inactive": ("The workflow is inactive.",),
    "deleted": ("The workflow was deleted.",),
}
_AT_THAT_TIME: Final = "when this version was saved"
_NO_NETWORK: Final = (
    'which this deployment allows no step: set `network = "full"` below [runtime] in the settings, '
    "or take `network: full` out of the environment."
)


@dataclass(frozen=True, slots=True)
class Resource:
    """A version of a resource; for a connector the newest version, with outcomes of its connection tests.

    `newest_passed` is the outcome of the last test of this version, None without a test; `ever_passed` says whether a
    test of any version passed; `size` is the number of characters of the definition as text.
    `packages` is the state of an environment's packages, None if it has none.
    """

    resource_id: str
    version: int
    definition: Definition
    newest_passed: bool | None = None
    ever_passed: bool = False
    size: int = 0
    packages: PackageState | None = None


Resources = Mapping[ResourceKey, Resource]

MOST_DEPTH: Final = 3
"""Most ancestors of a child run."""


def readiness(
    definition: Definition,
    resources: Resources,
    status: str,
    capabilities: Capabilities = NO_CAPABILITIES,
    of_children: Sequence[str] = (),
) -> list[str]:
    """Returns the reasons why a workflow version cannot run, each worded for a person; empty if it is ready.

    `capabilities` are those of this deployment; `of_children` are the reasons of child workflows.
    """
    return [
        *_BY_STATUS[status],
        *_step_reasons(definition, resources),
        *_tool_reasons(definition, resources),
        *_server_reasons(definition, resources, capabilities),
        *_attach_reasons(definition, resources),
        *_secret_reasons(definition, resources, capabilities),
        *_variable_reasons(definition, resources),
        *_connector_reasons(definition, resources),
        *_environment_reasons(definition, resources, capabilities),
        *_policy_reasons(definition, capabilities),
        *of_children,
    ]


def all_steps(definition: Definition) -> list[JsonObject]:
    """Returns the steps of a definition: `steps`, then `on_failure` and `always`."""
    return [*definition["steps"], *definition.get("on_failure", ()), *definition.get("always", ())]


def referred_resources(definition: Definition) -> set[ResourceKey]:
    """Returns every resource that a definition refers to by name."""
    steps = all_steps(definition)
    return {
        *(("agent", step["agent"]) for step in steps if step["agent"] is not None),
        *(("environment", name) for name in environments(definition)),
        *(("connector", name) for name in connectors(definition)),
        *(("knowledge_graph", entry["knowledge_graph"]) for entry in definition["publish"]),
    }


def child_workflows(definition: Definition) -> list[str]:
    """Returns the names of the workflows that steps start, each once, in order."""
    return list(dict.fromkeys(name for step in definition["steps"] if (name := step.get("workflow")) is not None))


def connectors(definition: Definition) -> list[str]:
    """Returns the connectors that steps and `s3_prefix` parameters name, each once, in order."""
    named = [name for step in all_steps(definition) for name in step["connectors"]]
    named += [parameter["connector"] for parameter in definition["parameters"] if parameter["type"] == "s3_prefix"]
    return list(dict.fromkeys(named))


def environments(definition: Definition) -> list[str]:
    """Returns the environments that steps name, each once, in order."""
    return list(dict.fromkeys(step["environment"] for step in all_steps(definition) if step["environment"] is not None))


def secrets_of(agent: Definition) -> Sequence[str]:
    """Returns the names of the secrets that the steps of an agent get."""
    # A definition without secrets lacks the field.
    names: Sequence[str] = agent.get("secrets") or ()
    return names


def package_reasons(name: str, python: Definition, packages: PackageState) -> Iterator[str]:
    """Yields the reasons why an environment's packages cannot be used; `python` is the field of its definition."""
    if packages.failure is not None:
        yield f"Environment '{name}' cannot be built: {packages.failure}"
    elif packages.modules is None:
        yield f"Environment '{name}' is being built."
    else:
        for index, module in enumerate(python["preload"]):
            if module.partition(".")[0] not in packages.modules | sys.stdlib_module_names:
                known = ", ".join(sorted(packages.modules)) or "none"
                yield (
                    f"Environment '{name}' cannot preload '{module}' (python.preload[{index}]): "
                    f"its packages have no such module, but {known}."
                )


def _step_reasons(definition: Definition, resources: Resources) -> Iterator[str]:
    if not definition["steps"]:
        yield "The workflow has no steps."
    for step in all_steps(definition):
        if step.get("approval") is not None or step.get("workflow") is not None:
            continue
        if step["agent"] is None:
            yield f"Step '{step['step']}' has no agent."
        elif ("agent", step["agent"]) not in resources:
            yield f"Step '{step['step']}' has no agent: there was no agent named '{step['agent']}' {_AT_THAT_TIME}."


def _secret_reasons(definition: Definition, resources: Resources, capabilities: Capabilities) -> Iterator[str]:
    names = dict.fromkeys(step["agent"] for step in all_steps(definition))
    tools = dict.fromkeys(tool for name in names for tool in _tools_of(name, resources))
    for name in {**names, **tools}:
        agent = resources.get(("agent", name))
        for secret in () if agent is None else secrets_of(agent.definition):
            if secret not in capabilities.secrets:
                yield f"Agent '{name}' needs the secret '{secret}', which is missing: {how_to_set(secret)}."


def _variable_reasons(definition: Definition, resources: Resources) -> Iterator[str]:
    """Yields the names that an agent's secret and a variable of its environment have both."""
    pairs = dict.fromkeys((step["agent"], step["environment"]) for step in all_steps(definition))
    for agent_name, environment_name in pairs:
        agent = resources.get(("agent", agent_name))
        environment = resources.get(("environment", environment_name))
        if agent is None or environment is None:
            continue
        for name in environment.definition.get("variables") or ():
            if name in secrets_of(agent.definition):
                yield (
                    f"Environment '{environment_name}' has the variable '{name}', which agent '{agent_name}' names "
                    "as a secret: give it another name, or take it away."
                )


def _tool_reasons(definition: Definition, resources: Resources) -> Iterator[str]:
    for name in dict.fromkeys(step["agent"] for step in all_steps(definition)):
        for tool in _tools_of(name, resources):
            agent = resources.get(("agent", tool))
            if agent is None:
                yield f"Agent '{name}' has no tool '{tool}': there was no agent of that name {_AT_THAT_TIME}."
            elif agent.definition["type"] != "python":
                yield f"Agent '{name}' cannot have agent '{tool}' as a tool, which is not of type python."


def _server_reasons(definition: Definition, resources: Resources, capabilities: Capabilities) -> Iterator[str]:
    for name in dict.fromkeys(step["agent"] for step in all_steps(definition)):
        agent = resources.get(("agent", name))
        for server in () if agent is None else server_tools(agent.definition):
            url, secret = server["mcp"], server["secret"]
            if not is_allowed_server(url, capabilities.mcp_hosts):
                yield (
                    f"Agent '{name}' has tools of the MCP server {url}, whose host this deployment does not allow: "
                    "name it in `mcp_hosts` below [runtime] in the settings."
                )
            if secret is not None and secret not in capabilities.secrets:
                yield f"Agent '{name}' needs the secret '{secret}', which is missing: {how_to_set(secret)}."


def _attach_reasons(definition: Definition, resources: Resources) -> Iterator[str]:
    """Yields the steps that do not need a step whose files their agent attaches."""
    for step in all_steps(definition):
        agent = resources.get(("agent", step["agent"]))
        for pattern in () if agent is None else attach_patterns(agent.definition):
            named = named_step(pattern)
            if named is not None and named not in step.get("needs", ()):
                yield (
                    f"Step '{step['step']}' does not need '{named}', whose files its agent '{step['agent']}' attaches "
                    f"('{pattern}'): name that step in its needs."
                )


def _tools_of(name: str | None, resources: Resources) -> list[str]:
    agent = None if name is None else resources.get(("agent", name))
    return [] if agent is None else agent_tools(agent.definition)


def _connector_reasons(definition: Definition, resources: Resources) -> Iterator[str]:
    for name in connectors(definition):
        connector = resources.get(("connector", name))
        if connector is None:
            yield f"Connector '{name}' is missing."
        elif connector.newest_passed is False:
            yield f"Connector '{name}' needs attention: its last connection test failed."
        elif not connector.ever_passed:
            yield f"Connector '{name}' has no recorded passing connection test."


def _environment_reasons(definition: Definition, resources: Resources, capabilities: Capabilities) -> Iterator[str]:
    for name in environments(definition):
        environment = resources.get(("environment", name))
        if environment is None:
            yield f"Environment '{name}' is not active: it did not exist {_AT_THAT_TIME}."
        elif environment.definition["status"] == "deleted":
            yield f"Environment '{name}' is not active: it was deleted."
        elif environment.definition["status"] != "active":
            yield f"Environment '{name}' is not active."
        else:
            # An environment that was applied before this field existed has no network.
            if environment.definition.get("network") == "full" and capabilities.network == "none":
                yield f"Environment '{name}' asks for the network (network: full), {_NO_NETWORK}"
            if environment.packages is not None:
                yield from package_reasons(name, environment.definition["python"], environment.packages)


def _policy_reasons(definition: Definition, capabilities: Capabilities) -> Iterator[str]:
    policy = definition["pii_policy"] or {}
    reason = why_not_applicable(policy)
    if reason is not None:
        yield f"The PII policy cannot be applied: {reason}."
    reason = why_unusable(policy, capabilities.providers)
    if reason is not None:
        yield f"The PII policy's model '{policy['model']}' cannot be used: {reason}."
