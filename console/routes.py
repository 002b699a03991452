"""Every route of the console: its method and path, what answers it, and what it needs of who asks.

Pages are for people who have signed in and have one of the roles; each POST is a form with its token. The other routes
are for visitors, or for people in the middle of signing in.
"""

from collections.abc import Awaitable, Callable
from enum import IntEnum
from functools import partial
from typing import Final, NamedTuple

from aiohttp import web

from console.account.own_passkeys import ADD, CODES, REMOVE, OwnPasskeys
from console.account.preferences import PREFERENCES, Preferences
from console.account.provider_sign_in import PROVIDER, RETURN, ProviderSignIn
from console.account.second_factor import PASSKEYS, PASSWORD, SECOND, SIGN_IN, SecondFactor
from console.account.sign_in import SIGNED_OUT, Account
from console.definitions import deletion, editor, restoring, versions
from console.definitions.kinds import AGENT, WORKFLOW, DefinitionKind
from console.http.static_files import ROUTE, StaticFiles
from console.keys import form
from console.pages import (
    agent_code,
    agents,
    approval_inbox,
    approvals,
    audit,
    connectors,
    decisions,
    deployment,
    environments,
    graphs,
    health,
    key_trial,
    keys,
    logs,
    overview,
    people,
    resources,
    retention,
    run,
    run_actions,
    run_compare,
    run_files,
    run_list,
    run_texts,
    search,
    secrets,
    start,
    usage,
    webhooks,
    workflows,
)
from console.resources.lookup import CONNECTORS, ENVIRONMENTS, GRAPHS
from console.sessions import SIGN_OUT
from console.visit import ADMINISTRATORS, ALL_ROLES, DECIDERS, ONLOOKERS, OPERATORS, Page, PageResult, Visit
from contract.roles import roles_of
from workflow_api.v1.users_pb2 import Role

HEALTH: Final = "/healthz"
"""Health check of the process, which is answered under any host name."""


class Needs(IntEnum):
    """How far a visitor must have come; each includes those before it."""

    NOTHING = 0
    """Cookies are not read."""
    VISITOR = 1
    SESSION = 2
    """A session, also of somebody who has a temporary password."""
    OWN_PASSWORD = 3
    """Also of somebody who must add a passkey first."""
    SIGNED_IN = 4


class Route(NamedTuple):
    """A route that is no page: a method of an object of class `of`, and what it needs. It reads its form itself.

    Where it needs nothing, it takes the request alone; else also the visitor, and what makes services.
    """

    method: str
    path: str
    needs: Needs
    of: type
    answer: Callable[..., Awaitable[web.StreamResponse]]


class Health:
    """The health check."""

    async def answer(self, _: web.Request) -> web.Response:
        """Returns that the process answers."""
        return web.Response(text="ok")


def _of_definition(kind: DefinitionKind, readers: frozenset[Role.ValueType] = ONLOOKERS) -> tuple[Page, ...]:
    """Returns the pages below the page of a definition, the same for every kind; `readers` see its versions."""

    def handled(
        handler: Callable[[DefinitionKind, Visit], Awaitable[PageResult]],
    ) -> Callable[[Visit], Awaitable[PageResult]]:
        return partial(handler, kind)

    one = f"{kind.path}/{{{versions.ID}}}"
    return (
        Page("GET", f"{kind.path}/new", ADMINISTRATORS, handled(editor.begin)),
        Page("POST", f"{kind.path}/new", ADMINISTRATORS, handled(editor.create)),
        Page("GET", f"{one}/edit", ADMINISTRATORS, handled(editor.edit)),
        Page("POST", f"{one}/edit", ADMINISTRATORS, handled(editor.save)),
        Page("GET", f"{one}/delete", ADMINISTRATORS, handled(deletion.ask)),
        Page("POST", f"{one}/delete", ADMINISTRATORS, handled(deletion.delete)),
        Page("GET", f"{one}/versions", readers, handled(versions.show_versions)),
        Page("GET", f"{one}/compare", readers, handled(versions.compare)),
    )


ROUTES: Final[tuple[Route, ...]] = (
    Route("GET", HEALTH, Needs.NOTHING, Health, Health.answer),
    Route("GET", ROUTE, Needs.NOTHING, StaticFiles, StaticFiles.answer),
    Route("GET", SIGN_IN, Needs.VISITOR, Account, Account.sign_in_form),
    Route("POST", SIGN_IN, Needs.VISITOR, Account, Account.sign_in),
    Route("GET", SECOND, Needs.VISITOR, SecondFactor, SecondFactor.form),
    Route("POST", SECOND, Needs.VISITOR, SecondFactor, SecondFactor.finish),
    Route("GET", PROVIDER, Needs.VISITOR, ProviderSignIn, ProviderSignIn.begin),
    Route("GET", RETURN, Needs.VISITOR, ProviderSignIn, ProviderSignIn.finish),
    Route("POST", SIGN_OUT, Needs.VISITOR, Account, Account.sign_out),
    Route("GET", SIGNED_OUT, Needs.VISITOR, Account, Account.signed_out),
    Route("GET", PASSWORD, Needs.SESSION, Account, Account.password_form),
    Route("POST", PASSWORD, Needs.SESSION, Account, Account.password),
    Route("GET", PASSKEYS, Needs.OWN_PASSWORD, OwnPasskeys, OwnPasskeys.show_list),
    Route("GET", ADD, Needs.OWN_PASSWORD, OwnPasskeys, OwnPasskeys.add_form),
    Route("POST", ADD, Needs.OWN_PASSWORD, OwnPasskeys, OwnPasskeys.add),
    Route("GET", REMOVE, Needs.SIGNED_IN, OwnPasskeys, OwnPasskeys.remove_form),
    Route("POST", REMOVE, Needs.SIGNED_IN, OwnPasskeys, OwnPasskeys.remove),
    Route("GET", CODES, Needs.SIGNED_IN, OwnPasskeys, OwnPasskeys.codes_form),
    Route("POST", CODES, Needs.SIGNED_IN, OwnPasskeys, OwnPasskeys.codes),
    Route("GET", PREFERENCES, Needs.SIGNED_IN, Preferences, Preferences.form),
    Route("POST", PREFERENCES, Needs.SIGNED_IN, Preferences, Preferences.save),
)

PAGES: Final[tuple[Page, ...]] = (
    Page("GET", "/", ALL_ROLES, overview.show),
    Page("GET", "/search", ALL_ROLES, search.show),
    Page("GET", "/approvals", DECIDERS, approval_inbox.show),
    Page("GET", "/approvals/stream", DECIDERS, approval_inbox.stream),
    Page("POST", "/approvals/several", DECIDERS, approval_inbox.decide_several, several=frozenset({"approval_id"})),
    Page("GET", "/approvals/history", DECIDERS, decisions.show),
    Page("GET", "/approvals/{approval_id}", DECIDERS, approvals.show_one),
    Page("GET", "/approvals/{approval_id}/stream", DECIDERS, approvals.stream),
    Page("GET", "/approvals/{approval_id}/material/{number}", DECIDERS, approvals.show_part),
    Page("POST", "/approvals/{approval_id}", DECIDERS, approvals.decide),
    Page("GET", "/runs", ALL_ROLES, run_list.show_list),
    Page("GET", "/runs/stream", ALL_ROLES, run_list.stream),
    Page("GET", "/runs/{run_id}", ALL_ROLES, run.show),
    Page("GET", "/runs/{run_id}/stream", ALL_ROLES, run.stream),
    Page("POST", "/runs/{run_id}/inputs", roles_of("PreviewsService/RevealRunInputs"), run.show_inputs),
    Page("GET", "/runs/{run_id}/events/{segment}/{seq}", ALL_ROLES, run.show_event),
    Page("POST", "/runs/{run_id}/cancel", OPERATORS, run_actions.cancel),
    Page("POST", "/runs/{run_id}/erase", ADMINISTRATORS, run_actions.erase),
    Page("GET", "/runs/{run_id}/compare", ALL_ROLES, run_compare.show),
    Page("GET", "/runs/{run_id}/outputs.zip", ALL_ROLES, run_files.download_all),
    Page("GET", "/runs/{run_id}/outputs/{output_id}", ALL_ROLES, run_files.show),
    Page("GET", "/runs/{run_id}/outputs/{output_id}/download", ALL_ROLES, run_files.download),
    Page("GET", "/runs/{run_id}/outputs/{output_id}/image", ALL_ROLES, run_files.show_image),
    Page("GET", "/runs/{run_id}/texts/{name}", ALL_ROLES, run_texts.text),
    Page("GET", "/runs/{run_id}/steps/{step}/value", ALL_ROLES, run_texts.value),
    Page("GET", "/runs/{run_id}/events/{segment}/{seq}/download", ALL_ROLES, run_texts.event),
    Page("GET", "/runs/{run_id}/logs/{step}", OPERATORS, logs.show),
    Page("GET", "/runs/{run_id}/logs/{step}/download", OPERATORS, logs.download),
    Page("GET", "/runs/{run_id}/logs/{step}/stream", OPERATORS, logs.stream),
    Page("GET", "/workflows", ALL_ROLES, workflows.show_list),
    Page("GET", "/workflows/{workflow_id}", ALL_ROLES, workflows.show_one),
    Page("POST", "/workflows/{workflow_id}/activate", ADMINISTRATORS, workflows.activate),
    Page("POST", "/workflows/{workflow_id}/deactivate", ADMINISTRATORS, workflows.deactivate),
    *_of_definition(WORKFLOW),
    Page("GET", "/workflows/{definition_id}/restore", ADMINISTRATORS, restoring.ask),
    Page("POST", "/workflows/{definition_id}/restore", ADMINISTRATORS, restoring.restore),
    Page("GET", "/workflows/{workflow_id}/start", OPERATORS, start.show),
    Page("POST", "/workflows/{workflow_id}/start", OPERATORS, start.start, takes_files=True),
    Page("GET", "/agents", ONLOOKERS, agents.show_list),
    Page("GET", "/agents/{definition_id}", ONLOOKERS, agents.show_one),
    *_of_definition(AGENT),
    Page("GET", "/agents/{definition_id}/code", ONLOOKERS, agent_code.show),
    Page("GET", "/agents/{definition_id}/code/download", ONLOOKERS, agent_code.download),
    Page("GET", "/resources", ADMINISTRATORS, resources.show),
    Page("GET", "/resources/environments", ADMINISTRATORS, environments.show_list),
    Page("GET", "/resources/environments/{resource}", ADMINISTRATORS, environments.show),
    Page("POST", "/resources/environments/{resource}/build", ADMINISTRATORS, environments.rebuild),
    Page("POST", "/resources/environments/{resource}/activate", ADMINISTRATORS, environments.activate),
    Page("POST", "/resources/environments/{resource}/deactivate", ADMINISTRATORS, environments.deactivate),
    Page("GET", "/resources/environments/{resource}/log", ADMINISTRATORS, environments.show_log),
    Page("GET", "/resources/environments/{resource}/log/download", ADMINISTRATORS, environments.download_log),
    Page("GET", "/resources/environments/{resource}/stream", ADMINISTRATORS, environments.stream),
    *_of_definition(ENVIRONMENTS.definition, ADMINISTRATORS),
    Page("GET", "/resources/connectors", ADMINISTRATORS, connectors.show_list),
    Page("GET", "/resources/connectors/{resource}", ADMINISTRATORS, connectors.show),
    Page("POST", "/resources/connectors/{resource}/test", ADMINISTRATORS, connectors.test),
    *_of_definition(CONNECTORS.definition, ADMINISTRATORS),
    Page("GET", "/resources/graphs", ADMINISTRATORS, graphs.show_list),
    Page("GET", "/resources/graphs/{resource}", ADMINISTRATORS, graphs.show),
    Page("POST", "/resources/graphs/{resource}/query", ADMINISTRATORS, graphs.query),
    *_of_definition(GRAPHS.definition, ADMINISTRATORS),
    Page("GET", "/resources/secrets", ADMINISTRATORS, secrets.show),
    Page("GET", "/keys", ADMINISTRATORS, keys.list_keys),
    Page("GET", "/keys/new", ADMINISTRATORS, keys.new_key),
    Page("POST", "/keys", ADMINISTRATORS, keys.create, several=form.SEVERAL),
    Page("GET", "/keys/{key_id}", ADMINISTRATORS, keys.show),
    Page("POST", "/keys/{key_id}", ADMINISTRATORS, keys.edit, several=form.SEVERAL),
    Page("GET", "/keys/{key_id}/rotate", ADMINISTRATORS, keys.rotation),
    Page("POST", "/keys/{key_id}/rotate", ADMINISTRATORS, keys.rotate),
    Page("POST", "/keys/{key_id}/end-overlap", ADMINISTRATORS, keys.end_overlap),
    Page("POST", "/keys/{key_id}/external-id", ADMINISTRATORS, keys.issue_external_id),
    Page("POST", "/keys/{key_id}/revoke", ADMINISTRATORS, keys.revoke),
    Page("POST", "/keys/{key_id}/delete", ADMINISTRATORS, keys.delete),
    Page("GET", "/keys/{key_id}/try", ADMINISTRATORS, key_trial.show),
    Page("GET", "/keys/{key_id}/webhooks", ADMINISTRATORS, webhooks.list_webhooks),
    Page("POST", "/keys/{key_id}/webhooks", ADMINISTRATORS, webhooks.create, several=webhooks.SEVERAL),
    Page("GET", "/keys/{key_id}/webhooks/{webhook_id}", ADMINISTRATORS, webhooks.show),
    Page("POST", "/keys/{key_id}/webhooks/{webhook_id}", ADMINISTRATORS, webhooks.edit, several=webhooks.SEVERAL),
    Page("POST", "/keys/{key_id}/webhooks/{webhook_id}/rotate", ADMINISTRATORS, webhooks.rotate),
    Page("POST", "/keys/{key_id}/webhooks/{webhook_id}/pause", ADMINISTRATORS, webhooks.pause),
    Page("POST", "/keys/{key_id}/webhooks/{webhook_id}/resume", ADMINISTRATORS, webhooks.resume),
    Page("POST", "/keys/{key_id}/webhooks/{webhook_id}/delete", ADMINISTRATORS, webhooks.delete),
    Page("POST", "/keys/{key_id}/webhooks/{webhook_id}/redeliver", ADMINISTRATORS, webhooks.redeliver),
    Page("GET", "/usage", ADMINISTRATORS, usage.all_usage),
    Page("GET", "/usage.csv", ADMINISTRATORS, usage.all_counts),
    Page("GET", "/keys/{key_id}/usage", ADMINISTRATORS, usage.key_usage),
    Page("GET", "/keys/{key_id}/usage.csv", ADMINISTRATORS, usage.key_counts),
    Page("GET", "/deployment", ONLOOKERS, deployment.show),
    Page("POST", "/deployment", ADMINISTRATORS, deployment.change),
    Page("GET", "/deployment/health", ONLOOKERS, health.show),
    Page("GET", "/deployment/health/stream", ONLOOKERS, health.stream),
    Page("GET", "/deployment/retention", ADMINISTRATORS, retention.show),
    Page("GET", "/people", ADMINISTRATORS, people.list_people),
    Page("POST", "/people", ADMINISTRATORS, people.add, several=people.SEVERAL),
    Page("GET", "/people/{name}/role", ADMINISTRATORS, people.role_form),
    Page("POST", "/people/{name}/role", ADMINISTRATORS, people.set_role, several=people.SEVERAL),
    Page("POST", "/people/{name}/enable", ADMINISTRATORS, people.enable),
    Page("POST", "/people/{name}/disable", ADMINISTRATORS, people.disable),
    Page("POST", "/people/{name}/passkeys", ADMINISTRATORS, people.remove_passkeys),
    Page("POST", "/people/{name}/password", ADMINISTRATORS, people.reset_password),
    Page("GET", "/audit", ADMINISTRATORS, audit.show),
    Page("GET", "/audit.csv", ADMINISTRATORS, audit.export_csv),
    Page("GET", "/audit.jsonl", ADMINISTRATORS, audit.export_json_lines),
)
