"""Table of the console's routes: method, path, handler, and the required roles or stage of signing in.

Pages are for people who have signed in with one of the page's roles; each POST is a form with a token. Visitor routes
are for people who have not signed in, or are in the middle of signing in.
"""

from collections.abc import Awaitable, Callable
from enum import IntEnum
from functools import partial
from typing import Final, NamedTuple

from aiohttp import web

from console.account import saved_views
from console.account.own_passkeys import ADD, CODES, REMOVE, OwnPasskeys
from console.account.preferences import PREFERENCES, PreferencesPage
from console.account.provider_sign_in import PROVIDER, RETURN, ProviderSignIn
from console.account.saved_views import RENAME, SAVE, SavedViewForms
from console.account.second_factor import PASSKEYS, PASSWORD, SECOND, SIGN_IN, SecondFactor
from console.account.sign_in import SIGNED_OUT, Account
from console.definitions import editor, versions
from console.definitions.kinds import AGENT, WORKFLOW, DefinitionKind
from console.http.static_files import ROUTE, StaticFiles
from console.keys import form
from console.pages import (
    agents,
    approval_care,
    approval_files,
    approval_inbox,
    approvals,
    audit,
    deployment,
    design,
    documents,
    environments,
    graphs,
    health,
    keys,
    logs,
    model_usage,
    overview,
    people,
    resources,
    run,
    run_changes,
    run_compare,
    run_files,
    run_list,
    run_resume,
    schedules,
    search,
    start,
    usage,
    waiting,
    webhooks,
    workflows,
)
from console.resources import CONNECTORS, ENVIRONMENTS, GRAPHS
from console.run.changes import CHANGES, RunChange
from console.sessions import SIGN_OUT
from console.visit import ADMINISTRATORS, ALL_ROLES, DECIDERS, ONLOOKERS, OPERATORS, Page, PageResult, Visit
from contract.roles import roles_of
from workflow_api.v1.users_pb2 import Role

HEALTH: Final = "/healthz"
"""Health check of the process, which is answered under any host name."""


class Needs(IntEnum):
    """Stages of signing in that a route may require; each stage includes the ones before it."""

    NOTHING = 0
    """Cookies are not read."""
    VISITOR = 1
    SESSION = 2
    """A session, even with a temporary password."""
    OWN_PASSWORD = 3
    """A session with a password of the person's own; a required passkey may still be missing."""
    SIGNED_IN = 4


class VisitorRoute(NamedTuple):
    """A route that is no page: a method of an object of class `owner`, and the required stage of signing in.

    The handler reads its form itself. It takes the request, and unless `needs` is `NOTHING` also the visitor and a
    function that makes services.
    """

    method: str
    path: str
    needs: Needs
    owner: type
    handler: Callable[..., Awaitable[web.StreamResponse]]


class Health:
    """Health check of the process."""

    async def answer(self, _: web.Request) -> web.Response:
        """Returns the text `ok`."""
        return web.Response(text="ok")


def _definition_pages(kind: DefinitionKind, readers: frozenset[Role.ValueType] = ONLOOKERS) -> tuple[Page, ...]:
    """Returns the pages below a definition's page, alike for every kind; `readers` are the roles that see versions."""

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
        Page("GET", f"{one}/delete", ADMINISTRATORS, handled(versions.ask_to_delete)),
        Page("POST", f"{one}/delete", ADMINISTRATORS, handled(versions.delete)),
        Page("GET", f"{one}/versions", readers, handled(versions.show_versions)),
        Page("GET", f"{one}/compare", readers, handled(versions.compare)),
    )


def _change_pages(change: RunChange) -> tuple[Page, ...]:
    """Returns the pages that change the runs ticked in the list; they come before the page of one run."""
    roles, repeated_fields = roles_of(change.rpc), frozenset({"run_id", "outcome"})
    return (
        Page("GET", change.path, roles, partial(run_changes.ask, change), repeated_fields=repeated_fields),
        Page("POST", change.path, roles, partial(run_changes.carry_out, change), repeated_fields=repeated_fields),
    )


ROUTES: Final[tuple[VisitorRoute, ...]] = (
    VisitorRoute("GET", HEALTH, Needs.NOTHING, Health, Health.answer),
    VisitorRoute("GET", ROUTE, Needs.NOTHING, StaticFiles, StaticFiles.answer),
    VisitorRoute("GET", SIGN_IN, Needs.VISITOR, Account, Account.sign_in_form),
    VisitorRoute("POST", SIGN_IN, Needs.VISITOR, Account, Account.sign_in),
    VisitorRoute("GET", SECOND, Needs.VISITOR, SecondFactor, SecondFactor.form),
    VisitorRoute("POST", SECOND, Needs.VISITOR, SecondFactor, SecondFactor.finish),
    VisitorRoute("GET", PROVIDER, Needs.VISITOR, ProviderSignIn, ProviderSignIn.begin),
    VisitorRoute("GET", RETURN, Needs.VISITOR, ProviderSignIn, ProviderSignIn.finish),
    VisitorRoute("POST", SIGN_OUT, Needs.VISITOR, Account, Account.sign_out),
    VisitorRoute("GET", SIGNED_OUT, Needs.VISITOR, Account, Account.signed_out),
    VisitorRoute("GET", PASSWORD, Needs.SESSION, Account, Account.password_form),
    VisitorRoute("POST", PASSWORD, Needs.SESSION, Account, Account.password),
    VisitorRoute("GET", PASSKEYS, Needs.OWN_PASSWORD, OwnPasskeys, OwnPasskeys.show_list),
    VisitorRoute("GET", ADD, Needs.OWN_PASSWORD, OwnPasskeys, OwnPasskeys.add_form),
    VisitorRoute("POST", ADD, Needs.OWN_PASSWORD, OwnPasskeys, OwnPasskeys.add),
    VisitorRoute("GET", REMOVE, Needs.SIGNED_IN, OwnPasskeys, OwnPasskeys.remove_form),
    VisitorRoute("POST", REMOVE, Needs.SIGNED_IN, OwnPasskeys, OwnPasskeys.remove),
    VisitorRoute("GET", CODES, Needs.SIGNED_IN, OwnPasskeys, OwnPasskeys.codes_form),
    VisitorRoute("POST", CODES, Needs.SIGNED_IN, OwnPasskeys, OwnPasskeys.codes),
    VisitorRoute("GET", PREFERENCES, Needs.SIGNED_IN, PreferencesPage, PreferencesPage.form),
    VisitorRoute("POST", PREFERENCES, Needs.SIGNED_IN, PreferencesPage, PreferencesPage.save),
    VisitorRoute("POST", SAVE, Needs.SIGNED_IN, SavedViewForms, SavedViewForms.save),
    VisitorRoute("POST", RENAME, Needs.SIGNED_IN, SavedViewForms, SavedViewForms.rename),
    VisitorRoute("POST", saved_views.REMOVE, Needs.SIGNED_IN, SavedViewForms, SavedViewForms.remove),
)

PAGES: Final[tuple[Page, ...]] = (
    Page("GET", "/", ALL_ROLES, overview.show),
    Page("GET", "/overview/stream", ALL_ROLES, overview.stream),
    Page("GET", "/search", ALL_ROLES, search.show),
    Page("GET", "/help", ALL_ROLES, documents.show),
    Page("GET", "/help/{document}", ALL_ROLES, documents.show),
    Page("GET", "/help/{folder}/{document}", ALL_ROLES, documents.show),
    Page("GET", "/approvals", DECIDERS, approval_inbox.show),
    Page("GET", waiting.WAITING, ALL_ROLES, waiting.show),
    Page("GET", "/approvals/stream", DECIDERS, approval_inbox.stream),
    Page(
        "POST",
        "/approvals/several",
        DECIDERS,
        approval_inbox.decide_several,
        repeated_fields=frozenset({"approval_id"}),
    ),
    Page("GET", "/approvals/history", DECIDERS, approvals.show_history),
    Page("GET", "/approvals/{approval_id}", DECIDERS, approvals.show_one),
    Page("GET", "/approvals/{approval_id}/stream", DECIDERS, approvals.stream),
    Page("GET", "/approvals/{approval_id}/material/{number}", DECIDERS, approval_files.show_part),
    Page("GET", "/approvals/{approval_id}/files/{output_id}/download", DECIDERS, approval_files.download),
    Page("GET", "/approvals/{approval_id}/files/{output_id}/picture", DECIDERS, approval_files.show_picture),
    Page("GET", "/approvals/{approval_id}/files/{output_id}/pages/{page}", DECIDERS, approval_files.show_page),
    Page("POST", "/approvals/{approval_id}/assign", DECIDERS, approval_care.assign),
    Page("POST", "/approvals/{approval_id}/snooze", DECIDERS, approval_care.snooze),
    Page("POST", "/approvals/{approval_id}", DECIDERS, approvals.decide),
    Page("GET", "/runs", ALL_ROLES, run_list.show_list),
    Page("GET", "/runs/stream", ALL_ROLES, run_list.stream),
    *(page for change in CHANGES for page in _change_pages(change)),
    Page("GET", "/runs/{run_id}", ALL_ROLES, run.show),
    Page("GET", "/runs/{run_id}/stream", ALL_ROLES, run.stream),
    Page("POST", "/runs/{run_id}/inputs", roles_of("PreviewsService/RevealRunInputs"), run.show_inputs),
    Page("GET", "/runs/{run_id}/events/{segment}/{seq}", ALL_ROLES, run.show_event),
    Page("POST", "/runs/{run_id}/cancel", OPERATORS, run.cancel),
    Page("POST", "/runs/{run_id}/erase", ADMINISTRATORS, run.erase),
    Page("GET", "/runs/{run_id}/usage", ALL_ROLES, model_usage.run_usage),
    Page("GET", "/runs/{run_id}/resume", roles_of("RunsService/ResumeRun"), run_resume.show),
    Page("POST", "/runs/{run_id}/resume", roles_of("RunsService/ResumeRun"), run_resume.resume),
    Page("GET", "/runs/{run_id}/compare", ALL_ROLES, run_compare.show),
    Page("GET", "/runs/{run_id}/outputs.zip", ALL_ROLES, run_files.download_all),
    Page("GET", "/runs/{run_id}/outputs/{output_id}", ALL_ROLES, run_files.show),
    Page("GET", "/runs/{run_id}/outputs/{output_id}/download", ALL_ROLES, run_files.download),
    Page("GET", "/runs/{run_id}/outputs/{output_id}/image", ALL_ROLES, run_files.show_image),
    Page("GET", "/runs/{run_id}/texts/{name}", ALL_ROLES, run_files.text),
    Page("GET", "/runs/{run_id}/steps/{step}/value", ALL_ROLES, run_files.value),
    Page("GET", "/runs/{run_id}/events/{segment}/{seq}/download", ALL_ROLES, run_files.event),
    Page("GET", "/runs/{run_id}/logs/{step}", OPERATORS, logs.show),
    Page("GET", "/runs/{run_id}/logs/{step}/download", OPERATORS, logs.download),
    Page("GET", "/runs/{run_id}/logs/{step}/stream", OPERATORS, logs.stream),
    Page("GET", "/workflows", ALL_ROLES, workflows.show_list),
    Page("GET", "/workflows/{workflow_id}", ALL_ROLES, workflows.show_one),
    Page("POST", "/workflows/{workflow_id}/activate", ADMINISTRATORS, workflows.activate),
    Page("POST", "/workflows/{workflow_id}/deactivate", ADMINISTRATORS, workflows.deactivate),
    *_definition_pages(WORKFLOW),
    Page("GET", "/workflows/{definition_id}/restore", ADMINISTRATORS, versions.ask_to_restore),
    Page("POST", "/workflows/{definition_id}/restore", ADMINISTRATORS, versions.restore),
    Page("GET", "/workflows/{workflow_id}/start", OPERATORS, start.show),
    Page("POST", "/workflows/{workflow_id}/start", OPERATORS, start.start, takes_files=True),
    Page("GET", "/schedules", ONLOOKERS, schedules.show_list),
    Page("POST", "/schedules/{workflow_id}/{name}/pause", OPERATORS, schedules.pause),
    Page("POST", "/schedules/{workflow_id}/{name}/resume", OPERATORS, schedules.resume),
    Page("POST", "/schedules/{workflow_id}/{name}/trigger", OPERATORS, schedules.trigger),
    Page("POST", "/schedules/{schedule_id}/cancel", OPERATORS, schedules.cancel),
    Page("GET", "/agents", ONLOOKERS, agents.show_list),
    Page("GET", "/agents/{definition_id}", ONLOOKERS, agents.show_one),
    *_definition_pages(AGENT),
    Page("GET", "/agents/{definition_id}/code", ONLOOKERS, agents.show_code),
    Page("GET", "/agents/{definition_id}/code/download", ONLOOKERS, agents.download_code),
    Page("GET", "/resources", ADMINISTRATORS, resources.show),
    Page("GET", "/resources/environments", ADMINISTRATORS, environments.show_list),
    Page("GET", "/resources/environments/{resource}", ADMINISTRATORS, environments.show),
    Page("POST", "/resources/environments/{resource}/build", ADMINISTRATORS, environments.rebuild),
    Page("POST", "/resources/environments/{resource}/activate", ADMINISTRATORS, environments.activate),
    Page("POST", "/resources/environments/{resource}/deactivate", ADMINISTRATORS, environments.deactivate),
    Page("GET", "/resources/environments/{resource}/log", ADMINISTRATORS, environments.show_log),
    Page("GET", "/resources/environments/{resource}/log/download", ADMINISTRATORS, environments.download_log),
    Page("GET", "/resources/environments/{resource}/stream", ADMINISTRATORS, environments.stream),
    *_definition_pages(ENVIRONMENTS.definition, ADMINISTRATORS),
    Page("GET", "/resources/connectors", ADMINISTRATORS, resources.list_connectors),
    Page("GET", "/resources/connectors/{resource}", ADMINISTRATORS, resources.show_connector),
    Page("POST", "/resources/connectors/{resource}/test", ADMINISTRATORS, resources.test_connector),
    *_definition_pages(CONNECTORS.definition, ADMINISTRATORS),
    Page("GET", "/resources/graphs", ADMINISTRATORS, graphs.show_list),
    Page("GET", "/resources/graphs/{resource}", ADMINISTRATORS, graphs.show),
    Page("POST", "/resources/graphs/{resource}/query", ADMINISTRATORS, graphs.query),
    *_definition_pages(GRAPHS.definition, ADMINISTRATORS),
    Page("GET", "/resources/secrets", ADMINISTRATORS, resources.show_secrets),
    Page("GET", "/resources/sets", ADMINISTRATORS, resources.show_sets),
    Page("GET", "/keys", ADMINISTRATORS, keys.list_keys),
    Page("GET", "/keys/new", ADMINISTRATORS, keys.new_key),
    Page("POST", "/keys", ADMINISTRATORS, keys.create, repeated_fields=form.REPEATED_FIELDS),
    Page("GET", "/keys/{key_id}", ADMINISTRATORS, keys.show),
    Page("POST", "/keys/{key_id}", ADMINISTRATORS, keys.edit, repeated_fields=form.REPEATED_FIELDS),
    Page("GET", "/keys/{key_id}/rotate", ADMINISTRATORS, keys.rotation),
    Page("POST", "/keys/{key_id}/rotate", ADMINISTRATORS, keys.rotate),
    Page("POST", "/keys/{key_id}/end-overlap", ADMINISTRATORS, keys.end_overlap),
    Page("POST", "/keys/{key_id}/external-id", ADMINISTRATORS, keys.issue_external_id),
    Page("POST", "/keys/{key_id}/revoke", ADMINISTRATORS, keys.revoke),
    Page("POST", "/keys/{key_id}/delete", ADMINISTRATORS, keys.delete),
    Page("GET", "/keys/{key_id}/try", ADMINISTRATORS, keys.show_trial),
    Page("GET", "/keys/{key_id}/webhooks", ADMINISTRATORS, webhooks.list_webhooks),
    Page("POST", "/keys/{key_id}/webhooks", ADMINISTRATORS, webhooks.create, repeated_fields=webhooks.REPEATED_FIELDS),
    Page("GET", "/keys/{key_id}/webhooks/{webhook_id}", ADMINISTRATORS, webhooks.show),
    Page(
        "POST",
        "/keys/{key_id}/webhooks/{webhook_id}",
        ADMINISTRATORS,
        webhooks.edit,
        repeated_fields=webhooks.REPEATED_FIELDS,
    ),
    Page("POST", "/keys/{key_id}/webhooks/{webhook_id}/rotate", ADMINISTRATORS, webhooks.rotate),
    Page("POST", "/keys/{key_id}/webhooks/{webhook_id}/pause", ADMINISTRATORS, webhooks.pause),
    Page("POST", "/keys/{key_id}/webhooks/{webhook_id}/resume", ADMINISTRATORS, webhooks.resume),
    Page("POST", "/keys/{key_id}/webhooks/{webhook_id}/delete", ADMINISTRATORS, webhooks.delete),
    Page("POST", "/keys/{key_id}/webhooks/{webhook_id}/redeliver", ADMINISTRATORS, webhooks.redeliver),
    Page("GET", "/usage", ADMINISTRATORS, usage.all_usage),
    Page("GET", "/usage.csv", ADMINISTRATORS, usage.all_counts),
    Page("GET", "/usage/models", ADMINISTRATORS, model_usage.all_models),
    Page("GET", "/usage/models.csv", ADMINISTRATORS, model_usage.all_models_csv),
    Page("GET", "/keys/{key_id}/models", ADMINISTRATORS, model_usage.key_models),
    Page("GET", "/keys/{key_id}/models.csv", ADMINISTRATORS, model_usage.key_models_csv),
    Page("GET", "/keys/{key_id}/usage", ADMINISTRATORS, usage.key_usage),
    Page("GET", "/keys/{key_id}/usage.csv", ADMINISTRATORS, usage.key_counts),
    Page("GET", "/deployment", ONLOOKERS, deployment.show),
    Page("POST", "/deployment", ADMINISTRATORS, deployment.change),
    Page("GET", "/deployment/health", ONLOOKERS, health.show),
    Page("GET", "/deployment/health/stream", ONLOOKERS, health.stream),
    Page("GET", "/deployment/retention", ADMINISTRATORS, deployment.show_retention),
    Page("GET", "/people", ADMINISTRATORS, people.list_people),
    Page("POST", "/people", ADMINISTRATORS, people.add, repeated_fields=people.REPEATED_FIELDS),
    Page("GET", "/people/{name}/role", ADMINISTRATORS, people.role_form),
    Page("POST", "/people/{name}/role", ADMINISTRATORS, people.set_role, repeated_fields=people.REPEATED_FIELDS),
    Page("POST", "/people/{name}/enable", ADMINISTRATORS, people.enable),
    Page("POST", "/people/{name}/disable", ADMINISTRATORS, people.disable),
    Page("POST", "/people/{name}/passkeys", ADMINISTRATORS, people.remove_passkeys),
    Page("POST", "/people/{name}/password", ADMINISTRATORS, people.reset_password),
    Page("GET", "/audit", ADMINISTRATORS, audit.show),
    Page("GET", "/audit.csv", ADMINISTRATORS, audit.export_csv),
    Page("GET", "/audit.jsonl", ADMINISTRATORS, audit.export_json_lines),
)

DESIGN: Final = Page("GET", "/design", ALL_ROLES, design.show)
"""The sheet of components, which only consoles of developers have."""
