import json
from typing import Any

import pytest

from console.definitions.editor import LONGEST_TEXT
from console.definitions.kinds import CONNECTOR, ENVIRONMENT, GRAPH, DefinitionKind
from console.visit import ADMINISTRATORS, ONLOOKERS, Redirect, View
from contract.refusals import Refusal
from tests.unit.console.seen import UNSEEN, MemoryServices, answered, html, roles_of
from workflow_api.v1.definitions_pb2 import (
    CompareVersionsResponse,
    DefinitionUse,
    DefinitionVersion,
    ListDefinitionUsesResponse,
    ListDefinitionVersionsResponse,
    Manifest,
)
from workflow_api.v1.users_pb2 import ROLE_VIEWER, User
from workflow_api.v1.workflows_pb2 import (
    AppliedResource,
    ApplyManifestsRequest,
    ApplyManifestsResponse,
    ListResourcesResponse,
    Resource,
    ResourceDefinition,
)

VIEWER = User(name="vic", role=ROLE_VIEWER)
EVIL = f"<script>alert(1)</script>{UNSEEN}"
TEXT = "kind: Agent\nname: counter\n"
EDIT = "/agents/{definition_id}/edit"
HERE = {"definition_id": "agt_1"}
APPLY = "WorkflowsService/ApplyManifests"
UNIFIED = f"--- one\n+++ two\n@@ -1 +1 @@\n-old {EVIL}\n+new {EVIL}\n same\n"


def applied(**other: Any) -> ApplyManifestsResponse:
    fields: dict[str, Any] = {
        "kind": "Agent",
        "name": "counter",
        "id": "agt_1",
        "version": 3,
        "previous_version": 2,
        "outcome": "updated",
        "manifest_difference": UNIFIED,
    }
    return ApplyManifestsResponse(items=[AppliedResource(**{**fields, **other})])


def services(**answers: Any) -> MemoryServices:
    named = {
        "GetManifest": Manifest(kind="Agent", id="agt_1", name="counter", version=2, newest_version=2, text=TEXT),
        "CompareVersions": CompareVersionsResponse(name="counter", newest_version=2, difference=UNIFIED),
        "ListDefinitionVersions": ListDefinitionVersionsResponse(
            items=[DefinitionVersion(version=2, created_by=f"user:{EVIL}")], next_page_token="t1"
        ),
        "ListDefinitionUses": ListDefinitionUsesResponse(
            items=[
                DefinitionUse(
                    workflow_id="wf_1", workflow_name=EVIL, workflow_version=7, version=1, environments=["standard"]
                )
            ]
        ),
        **answers,
    }
    return MemoryServices({f"DefinitionsService/{name}": answer for name, answer in named.items()} | {APPLY: applied()})


def view(backend: MemoryServices, **form: str) -> View:
    answer = answered(backend, "POST", EDIT, HERE, form={"text": TEXT, "base": "2", "do": "check", **form})
    assert isinstance(answer, View)
    return answer


def checked(page: View) -> str:
    return str(page.context["digest"])


def invalid(*problems: tuple[str, str]) -> Refusal:
    return Refusal("invalid_request", details=[{"name": name, "reason": reason} for name, reason in problems])


def test_the_editor_has_the_newest_version_with_numbered_lines() -> None:
    page = html(answered(services(), "GET", EDIT, HERE))
    assert "\nkind: Agent\nname: counter\n</textarea>" in page
    assert "1\n2\n3\n" in page
    assert 'name="base" value="2"' in page


def test_the_editor_says_which_set_owns_a_definition() -> None:
    owned = Manifest(
        kind="Agent", id="agt_1", name="counter", version=2, newest_version=2, text=TEXT, set_name="billing"
    )
    assert "apply --set billing" in html(answered(services(GetManifest=owned), "GET", EDIT, HERE))
    assert "--set" not in html(answered(services(), "GET", EDIT, HERE))


@pytest.mark.parametrize("set_name", [None, "billing"])
def test_an_agent_is_shown_with_the_set_that_owns_it(set_name: str | None) -> None:
    backend = services()
    agent = Resource(resource_id="agt_1", name="counter", version=2, type="python", set_name=set_name)
    backend.answers["WorkflowsService/GetResource"] = ResourceDefinition(resource=agent, shown_version=2)
    page = html(answered(backend, "GET", "/agents/{definition_id}", HERE))
    assert ("Set <strong>billing</strong> owns it" in page) is (set_name is not None)


def test_a_problem_is_shown_with_its_line_and_the_text_stays() -> None:
    backend = services()
    backend.answers[APPLY] = invalid(("manifest:2: name", "must be short"), ("files", "must hold Agent"))
    text = f"kind: Agent\nname: {EVIL}\n"
    answer = view(backend, text=text)
    page = html(answer)
    assert answer.status == 400
    assert 'href="#line-2"' in page
    assert '<b id="line-2">2</b>' in page
    assert "must be short" in page
    assert "must hold Agent" in page
    assert page.count("&lt;script&gt;") == 2
    assert EVIL not in page
    assert "Save as" not in page


def test_a_page_with_very_many_problems_has_at_most_40_kb_beside_the_text() -> None:
    text = "a:\n" * 20_000
    found = [(f"manifest:{line}: {'x' * 500}[{line}]", '"' * 2_000) for line in range(1, 3_001)]
    backend = services()
    backend.answers[APPLY] = invalid(*found)
    page = html(view(backend, text=text))
    assert len(page.encode()) - len(text) < 40_000
    assert "It has 3000 problems" in page
    shown = page.count('<li><a href="#line-')
    assert 0 < shown <= 50
    assert f"And {3_000 - shown:,} more" in page


def test_what_a_check_tells_of_very_much_is_cut() -> None:
    unified = "--- one\n+++ two\n" + ('+"' + '"' * 300 + "\n") * 600
    many = applied(manifest_difference=unified, not_ready=["é" * 900] * 500, warnings=["<" * 900] * 500)
    many.items.extend(AppliedResource(kind="Workflow", name=f"flow-{n}", version=2) for n in range(500))
    backend = services()
    backend.answers[APPLY] = many
    page = html(view(backend))
    assert len(page.encode()) < 100_000
    assert "flow-19" in page
    assert "flow-20" not in page
    assert "and 480 more" in page


def test_a_check_asks_for_the_version_that_was_edited_and_saves_nothing() -> None:
    backend = services()
    page = html(view(backend))
    (asked,) = backend.asked(APPLY)
    assert asked.dry_run
    assert [(each.kind, each.name, each.version) for each in asked.expected] == [("Agent", "counter", 2)]
    assert "<ins>+new &lt;script" in page
    assert "<del>-old &lt;script" in page
    assert "Save as version 3" in page


def test_a_text_is_saved_as_it_was_checked() -> None:
    backend = services()
    digest = checked(view(backend))
    form = {"text": TEXT, "base": "2", "do": "save", "checked": digest}
    answer = answered(backend, "POST", EDIT, HERE, form=form)
    assert answer == Redirect("/agents/agt_1", "Saved as version 3.")
    *_, saved = backend.asked(APPLY)
    assert not saved.dry_run
    assert saved.files[0].content == TEXT


@pytest.mark.parametrize("change", [{"checked": ""}, {"text": TEXT + "# more\n"}])
def test_another_text_than_was_checked_is_checked_first(change: dict[str, str]) -> None:
    backend = services()
    digest = checked(view(backend))
    page = html(view(backend, **{"do": "save", "checked": digest, **change}))
    assert "has changed since it was checked" in page
    assert all(asked.dry_run for asked in backend.asked(APPLY))


def test_a_version_that_somebody_saved_meanwhile_is_told_and_the_text_stays() -> None:
    backend = services()
    answer = view(backend, base="1", text="kind: Agent\nname: mine\n", do="save")
    page = html(answer)
    assert answer.status == 409
    assert "saved version 2 meanwhile" in page
    assert "name: mine" in page
    assert 'name="base" value="2"' in page
    assert not backend.asked(APPLY)


def test_what_was_saved_between_check_and_save_is_not_replaced() -> None:
    backend = services()
    digest = checked(view(backend))

    def newer(request: ApplyManifestsRequest) -> ApplyManifestsResponse:
        if request.dry_run:
            return applied()
        raise invalid(("manifest:2: version", "must be of version 3, which is the newest now"))

    backend.answers[APPLY] = newer
    answer = view(backend, do="save", checked=digest)
    assert answer.status == 409
    assert "which is the newest now" in html(answer)


def test_a_new_definition_must_be_of_the_kind_and_replace_none() -> None:
    backend = services()
    backend.answers[APPLY] = applied(kind="Workflow")
    answer = answered(backend, "POST", "/agents/new", form={"text": TEXT, "do": "check"})
    assert "must be Agent on this page" in html(answer)
    backend.answers[APPLY] = applied(version=1, outcome="created")
    answered(backend, "POST", "/agents/new", form={"text": TEXT, "do": "check"})
    *_, asked = backend.asked(APPLY)
    assert [(each.kind, each.name, each.version) for each in asked.expected] == [("Agent", "counter", 0)]


def test_what_else_a_save_changes_is_told_before() -> None:
    backend = services()
    found = applied(warnings=[f"No secret {EVIL}"], not_ready=["No agent"])
    found.items.add(kind="Workflow", name="Ready", version=9, outcome="updated")
    backend.answers[APPLY] = found
    page = html(view(backend))
    assert "Ready (version 9)" in page
    assert "No secret &lt;script" in page
    assert "No agent" in page


def test_a_text_without_a_change_cannot_be_saved() -> None:
    backend = services()
    backend.answers[APPLY] = applied(version=2, outcome="unchanged", manifest_difference="")
    page = html(view(backend))
    assert "Nothing to save" in page
    assert 'value="save"' not in page


@pytest.mark.parametrize("text", ["", "a" * (LONGEST_TEXT + 1)])
def test_a_definition_that_is_too_long_is_not_edited_here(text: str) -> None:
    backend = services(GetManifest=Manifest(id="agt_1", name="counter", version=2, newest_version=2, text=text))
    assert "workflow-api apply" in html(answered(backend, "GET", EDIT, HERE))
    sent = view(services(), text="a" * (LONGEST_TEXT + 1))
    assert sent.status == 400
    assert "65,536" in html(sent)


def test_an_older_version_is_edited_on_the_newest() -> None:
    backend = services(
        GetManifest=lambda asked: Manifest(
            id="agt_1", name="counter", version=asked.version or 5, newest_version=5, text=f"of {asked.version}"
        )
    )
    page = html(answered(backend, "GET", EDIT, HERE, query={"from": "2"}))
    assert "of 2</textarea>" in page
    assert 'name="base" value="5"' in page


def test_versions_and_their_differences_are_shown() -> None:
    page = html(answered(services(), "GET", "/agents/{definition_id}/versions", HERE))
    assert 'href="/agents/agt_1/versions?after=t1"' in page
    assert EVIL not in page
    query = {"before": "1", "after": "2"}
    page = html(answered(services(), "GET", "/agents/{definition_id}/compare", HERE, query=query))
    assert "1 line added, 1 removed" in page
    assert EVIL not in page


@pytest.mark.parametrize("query", [{}, {"before": "1"}, {"before": "x", "after": "2"}, {"before": "0", "after": "1"}])
def test_a_comparison_names_two_versions(query: dict[str, str]) -> None:
    backend = services()
    answer = answered(backend, "GET", "/agents/{definition_id}/compare", HERE, query=query)
    assert isinstance(answer, View)
    assert answer.status == 404
    assert not backend.calls


def test_a_long_difference_is_cut() -> None:
    lines = "--- a\n+++ b\n" + "+x\n" * 5_000
    backend = services(CompareVersions=CompareVersionsResponse(name="counter", difference=lines))
    query = {"before": "1", "after": "2"}
    page = html(answered(backend, "GET", "/agents/{definition_id}/compare", HERE, query=query))
    assert "5,000 lines added" in page
    assert "There is more than is shown here" in page
    assert len(page) < 50_000


def test_agents_are_listed_and_shown_with_what_uses_them() -> None:
    backend = services()
    agent = Resource(resource_id="agt_1", name="counter", version=2, type="python")
    backend.answers["WorkflowsService/ListResources"] = ListResourcesResponse(items=[agent])
    backend.answers["WorkflowsService/GetResource"] = ResourceDefinition(resource=agent)
    assert 'href="/agents/agt_1"' in html(answered(backend, "GET", "/agents"))
    page = html(answered(backend, "GET", "/agents/{definition_id}", HERE))
    assert 'href="/workflows/wf_1"' in page
    assert "name: counter" in page
    assert 'href="/agents/agt_1/edit"' in page
    assert 'href="/resources/environments/standard"' in page
    assert EVIL not in page
    read = html(answered(backend, "GET", "/agents/{definition_id}", HERE, user=VIEWER), VIEWER)
    assert "/edit" not in read
    assert "standard" in read
    assert "/resources/" not in read


@pytest.mark.parametrize("path", [EDIT, "/agents/{definition_id}", "/agents/{definition_id}/versions"])
def test_an_unknown_definition_is_reported(path: str) -> None:
    backend = services(GetManifest=Refusal("not_found", "There is no agent 'x'."))
    answer = answered(backend, "GET", path, HERE)
    assert isinstance(answer, View)
    assert answer.status == 404
    assert "There is no agent" in html(answer)


@pytest.mark.parametrize("kind", [ENVIRONMENT, CONNECTOR, GRAPH])
def test_a_resource_is_edited_as_a_manifest_like_any_definition(kind: DefinitionKind) -> None:
    backend = services()
    backend.answers[APPLY] = applied(kind=kind.kind, id="res_1")
    edit = f"{kind.path}/{{definition_id}}/edit"
    form = {"text": TEXT, "base": "2", "do": "check"}
    page = html(answered(backend, "POST", edit, HERE, form=form))
    assert "Save as version 3" in page
    (asked,) = backend.asked(APPLY)
    assert [(each.kind, each.version) for each in asked.expected] == [(kind.kind, 2)]
    saved = answered(backend, "POST", edit, HERE, form={**form, "do": "save", "checked": checked(view(services()))})
    assert saved == Redirect(f"{kind.path}/res_1", "Saved as version 3.")
    for path in (edit, f"{kind.path}/new", f"{kind.path}/{{definition_id}}/versions"):
        assert roles_of("GET", path) == ADMINISTRATORS


@pytest.mark.parametrize("path", ["/agents", "/workflows"])
def test_only_administrators_change_definitions(path: str) -> None:
    for method in ("GET", "POST"):
        assert roles_of(method, f"{path}/new") == roles_of(method, f"{path}/{{definition_id}}/edit") == ADMINISTRATORS
    assert roles_of("GET", f"{path}/{{definition_id}}/compare") == ONLOOKERS
    assert roles_of("GET", "/agents") == roles_of("GET", "/agents/{definition_id}") == ONLOOKERS


def live(backend: MemoryServices, **form: str) -> View:
    return view(backend, do="live", **form)


def test_a_text_under_way_is_checked_as_by_the_button_and_the_answer_is_the_verdict_alone() -> None:
    backend = services()
    answer = live(backend)
    (asked,) = backend.asked(APPLY)
    assert asked.dry_run
    page = html(answer)
    assert (answer.status, "It is valid." in page, "<main" in page, "Save" in page) == (200, True, False, False)


def test_a_problem_of_a_text_under_way_is_no_failure_of_the_request() -> None:
    backend = services()
    backend.answers[APPLY] = invalid(("manifest:2: name", f"must be short {EVIL}"))
    answer = live(backend)
    page = html(answer)
    assert answer.status == 200
    assert page.count('data-line="2"') == 2
    assert EVIL not in page
    assert 'id="graph"' not in page


def test_a_text_under_way_says_that_somebody_saved_meanwhile() -> None:
    newer = Manifest(kind="Agent", id="agt_1", name="counter", version=3, newest_version=3, text=TEXT)
    answer = live(services(GetManifest=newer))
    assert answer.status == 200
    assert "meanwhile: Check shows what they changed" in html(answer)


def test_a_checked_workflow_is_drawn_with_as_many_steps_as_fit() -> None:
    steps = [{"step": f"step-{number}", "agent": EVIL, "needs": ["step-0"] if number else []} for number in range(45)]
    backend = services()
    backend.answers[APPLY] = applied(kind="Workflow", definition=json.dumps({"steps": steps}))
    page = html(live(backend))
    assert page.count('class="step"') == 40
    assert "5 more steps are not drawn" in page
    assert EVIL not in page
