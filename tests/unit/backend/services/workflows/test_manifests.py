"""All problems of all files at once, with file, line and field (contract 24)."""

import textwrap

import pytest

from backend.common.errors import ApiError
from backend.services.workflows.manifests.loader import Manifest, check_manifests, load_manifests
from tests.support.content_checks import UNBOUNDED
from workflow_api.v1 import errors_pb2


def load(text: str, name: str = "a.yaml") -> list[Manifest]:
    return load_manifests([(name, textwrap.dedent(text))], UNBOUNDED)


def problems(text: str) -> dict[str, str]:
    with pytest.raises(ApiError) as refused:
        load(text)
    assert refused.value.reason == errors_pb2.ERROR_REASON_INVALID_REQUEST
    return dict(refused.value.problems)


def test_problems_of_all_files_are_told_at_once() -> None:
    first = "kind: Environment\nname: a\nmemory_mb: 1\n---\nkind: Environment\nname: b\ntimeout_seconds: 901\n"
    with pytest.raises(ApiError) as refused:
        load_manifests([("one.yaml", first), ("two.yaml", "\n\nkind: Agent\nname: x\ntype: java\n")], UNBOUNDED)
    assert refused.value.problems == (
        ("one.yaml:3: memory_mb", "must be an integer from 1,769 to 3,008; it is 1"),
        ("one.yaml:7: timeout_seconds", "must be an integer from 1 to 900; it is 901"),
        ("two.yaml:5: type", "must be one of: python, llm; it is 'java'"),
    )


def test_unknown_fields_are_refused_with_those_that_are_known() -> None:
    found = problems("kind: KnowledgeGraph\nname: g\ncolour: red\n")
    assert found == {"a.yaml:3: colour": "is not a known field; known are: store, kind, name, base_iri"}


def test_an_unknown_field_is_told_with_the_known_one_that_it_is_like() -> None:
    found = problems("kind: KnowledgeGraph\nname: g\nstor: folder\n")
    reason = "is not a known field. Did you mean store? Known are: store, kind, name, base_iri"
    assert found == {"a.yaml:3: stor": reason}


def test_only_the_first_of_very_many_unknown_fields_are_compared() -> None:
    fields = "".join(f"stor{number}: x\n" for number in range(120))
    found = problems(f"kind: KnowledgeGraph\nname: g\n{fields}")
    assert sum("Did you mean store?" in reason for reason in found.values()) == 50
    assert len(found) == 120


def test_a_need_of_no_step_is_told_with_the_step_that_it_is_like() -> None:
    steps = "- {step: reader, agent: a}\n- {step: b, agent: a, needs: [readr]}\n"
    found = problems(f"kind: Workflow\nname: w\nsteps:\n{steps}")
    assert found == {"a.yaml:5: steps[1].needs[0]": "must name a step; there is no step readr. Did you mean reader?"}


def test_a_field_of_a_later_release_is_unknown() -> None:
    text = "kind: Workflow\nname: w\nsteps:\n  - {step: a, agent: b, retries: 3}\n"
    assert "a.yaml:4: steps[0].retries" in problems(text)


def test_a_field_given_twice_is_refused_where_it_stands_again() -> None:
    assert problems("kind: Environment\nname: a\nmemory_mb: 2048\nmemory_mb: 2048\n") == {
        "a.yaml:4: memory_mb": "must not be given twice"
    }


def test_required_fields_are_named_at_the_line_of_their_object() -> None:
    assert problems("\nkind: Connector\ntype: s3\n") == {
        "a.yaml:2: name": "is required",
        "a.yaml:2: bucket": "is required",
    }


@pytest.mark.parametrize(("text", "field"), [("name: x\n", "kind"), ("- a\n", "document"), ("kind: Robot\n", "kind")])
def test_a_document_is_an_object_of_a_known_kind(text: str, field: str) -> None:
    assert f"a.yaml:1: {field}" in problems(text)


def test_no_document_at_all_is_refused() -> None:
    assert problems("# nothing\n---\n---\n") == {"files": "must hold at least one document"}


def test_the_same_name_twice_in_one_kind_is_refused() -> None:
    text = "kind: KnowledgeGraph\nname: g\n---\nkind: KnowledgeGraph\nname: g\n"
    assert problems(text) == {
        "a.yaml:4: name": "must be unique among the KnowledgeGraph documents; a.yaml:1 has it too"
    }


def test_defaults_are_filled_in_so_that_spelling_them_out_changes_nothing() -> None:
    short = load("kind: Environment\nname: a\n")
    long = load(
        "kind: Environment\nstatus: active\nworkspace_mb: 512\ntimeout_seconds: 900\nmemory_mb: 2048\nname: a\n"
    )
    assert short[0].definition == long[0].definition


def test_status_of_a_workflow_is_no_part_of_its_definition() -> None:
    draft, active = load("kind: Workflow\nname: w\nstatus: draft\n"), load("kind: Workflow\nname: w\nstatus: active\n")
    assert draft[0].definition == active[0].definition
    assert (draft[0].status, active[0].status) == ("draft", "active")


def test_plain_words_stay_text() -> None:
    found = load("kind: Workflow\nname: no\ndescription: off\npii_policy: {mode: off}\n")
    assert '"name":"no"' in found[0].definition
    assert '"mode":"off"' in found[0].definition


def test_a_syntax_error_is_told_with_its_line_beside_the_problems_before_it() -> None:
    found = problems("kind: Environment\nname: a\nmemory_mb: 5\n---\na: b: c\n")
    assert list(found) == ["a.yaml:3: memory_mb", "a.yaml:5: document"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("kind: !!python/object/apply:os.system [ls]\n", "must not have a YAML tag"),
        ("kind: !!str Agent\n", "must not have a YAML tag"),
        ("a: &x [*x]\n", "must not use an alias before its anchor is complete"),
        ("a: *nobody\n", "must not use an alias before its anchor is complete"),
        ("? [a]\n: b\n", "must have text as the name of each field"),
        ("[" * 70 + "]" * 70, "must not be nested more than 64 deep"),
        ('a: "\\0"\n', "must not contain U+0000"),
        ("a: 99999999999999999999999\n", "must be a number of at most 64 bits"),
        ("a: 1e999\n", "must be a number of at most 64 bits"),
    ],
)
def test_what_json_cannot_say_is_refused(text: str, reason: str) -> None:
    assert reason in problems(text).values()


def test_aliases_stand_for_what_they_name() -> None:
    text = "kind: Environment\nname: &n a\n---\nkind: Workflow\nname: w\ndescription: &d same\nresult: null\n"
    assert len(load(text)) == 2
    text = "kind: Workflow\nname: &n w\ndescription: *n\n"
    assert '"description":"w"' in load(text)[0].definition


def test_an_alias_bomb_is_refused_before_it_grows() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    assert "must not hold more than 100,000 values" in problems("\n".join(lines)).values()


def test_text_that_is_not_yaml_characters_is_refused() -> None:
    assert "a.yaml:2: document" in problems("kind: Agent\nname: \x07\n")


def test_endless_lists_of_problems_are_cut() -> None:
    text = "kind: KnowledgeGraph\nname: g\n" + "".join(f"f{n}: 1\n" for n in range(300))
    assert problems(text)["files"] == "have 100 more problems"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("kind: Environment\nname", 2),
        ("kind: Environment\nname: a\n? b", 3),
        ("kind: Environment\nname: a\n? b\n", 3),
        ("kind: Agent\nname: a\ntype: python\ncode: |\n  def run(context):", 5),
        ("kind: Agent\nname: a\ntype: python\ncode: |\n  def run(context):\n", 5),
    ],
)
def test_what_is_wrong_at_the_end_of_a_file_is_told_with_its_last_line(text: str, line: int) -> None:
    [place] = problems(text)
    assert place.startswith(f"a.yaml:{line}: ")


def test_a_field_without_a_name_is_told_so_that_it_is_seen() -> None:
    assert problems('kind: Environment\nname: a\n"": 1\n') == {
        'a.yaml:3: ""': "is not a known field; known are: kind, name, memory_mb, timeout_seconds, workspace_mb, "
        "network, status, python, root, variables"
    }


def test_what_does_not_depend_on_an_unknown_type_is_told_with_it() -> None:
    text = """
        kind: Workflow
        name: w
        parameters: [{name: Not-A-Name, type: nope}]
        steps: [{step: a, needs: [b]}]
        """
    loaded = check_manifests([("f", textwrap.dedent(text).strip())], UNBOUNDED)
    assert [name for name, _ in loaded.problems] == [
        "f:3: parameters[0].name",
        "f:3: parameters[0].type",
        "f:4: steps[0].needs[0]",
    ]


def test_names_that_no_file_has_are_told_in_the_same_pass() -> None:
    workflow = """
        kind: Workflow
        name: w
        parameters: [{name: P, type: string}, {name: q, type: s3_prefix, connector: inbox}]
        steps: [{step: a, agent: counter, environment: large, connectors: [inbox]}]
        publish: [{knowledge_graph: facts}]
        """
    # A document with a problem of its own is there all the same.
    agent = "kind: Agent\nname: counter\ntype: python\n"
    files = [("f", textwrap.dedent(workflow).strip()), ("g", agent)]
    loaded = check_manifests(files, UNBOUNDED, complete=True)
    assert loaded.problems == [
        ("f:3: parameters[0].name", "must be of the form ^[a-z][a-z0-9_]{0,63}$; it is 'P'"),
        ("f:3: parameters[1].connector", "must name a document of kind Connector; no file has 'inbox'"),
        ("f:4: steps[0].connectors[0]", "must name a document of kind Connector; no file has 'inbox'"),
        ("f:4: steps[0].environment", "must name a document of kind Environment; no file has 'large'"),
        ("f:5: publish[0].knowledge_graph", "must name a document of kind KnowledgeGraph; no file has 'facts'"),
        ("g:1: code", "is required, or code_file, or source with entrypoint"),
    ]
    assert [name for name, _ in check_manifests(files, UNBOUNDED).problems] == [
        "f:3: parameters[0].name",
        "g:1: code",
    ]


def test_entries_beyond_the_most_are_read_too() -> None:
    steps = "".join(f"- {{step: s{number}}}\n" for number in range(20)) + "- {step: Wrong}\n"
    text = f"kind: Workflow\nname: w\nresult: {{step: s0}}\nsteps:\n{steps}"
    problems = check_manifests([("f", text)], UNBOUNDED).problems
    assert [name for name, _ in problems] == ["f:5: steps", "f:25: steps[20].step"]


def test_mistakes_of_syntax_are_told_beside_problems_of_the_documents_that_can_be_read() -> None:
    broken = "kind: Agent\nname: worker\ncode: 'x\ndescription: [a\n"
    text = f"kind: Environment\nname: a\nmemory_mb: 5\n---\n{broken}---\nkind: Environment\nname: b\nmemory_mb: 6\n"
    assert list(problems(text)) == ["a.yaml:3: memory_mb", "a.yaml:7: document", "a.yaml:12: memory_mb"]
    apart = text.replace("description", "type: python\ndescription")
    assert list(problems(apart)) == [
        "a.yaml:3: memory_mb",
        "a.yaml:7: document",
        "a.yaml:9: document",
        "a.yaml:13: memory_mb",
    ]


def test_names_that_a_document_with_a_mistake_may_have_are_not_missing() -> None:
    workflow = "kind: Workflow\nname: w\nsteps:\n  - {step: a, agent: worker}\n"
    found = check_manifests(
        [("a.yaml", workflow), ("b.yaml", "kind: Agent\nname: worker\ntype: 'x\n")], UNBOUNDED, complete=True
    )
    assert [place for place, _ in found.problems] == ["b.yaml:3: document"]
    assert [place for place, _ in found.missing] == ["a.yaml:4: steps[0].agent"]
