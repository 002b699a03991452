import json
from pathlib import Path
from typing import Any

import pytest

from backend.services.workflows.manifests.attachments import Attachments
from backend.services.workflows.manifests.loader import ManifestText, load_manifests
from backend.services.workflows.manifests.writer import manifest_text, yaml_text
from backend.services.workflows.manifests.yaml_reader import read_documents
from tests.support.content_checks import UNBOUNDED

ROOT = Path(__file__).parents[6]
EXAMPLES = sorted((ROOT / "examples").rglob("*.yaml"))
TEXTS = [
    *("no", "off", "null", "~", "0o17", "0x1f", "1e3", "1e-3", ".5", "+1", "1_000", "2026-11-23", "=", "<<", "", " a "),
    *("a: b", "a #b", "- a", "@a", "%a", "two\nlines", "two\nlines\n", "\n first", "  first\nsecond", "tab\there"),
    *("trailing \nblank", "\x7f", "\u2028", "ä\N{SNOWMAN}\U0001f600", "'quoted'", '"quoted"', "|", ">", "?", "a" * 500),
]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_written_of_a_definition_is_read_as_the_same_definition(path: Path) -> None:
    beside = path.parent
    files = {str(each.relative_to(beside)): each.read_bytes() for each in beside.rglob("*") if each.is_file()}
    for made in load_manifests([ManifestText("f", path.read_text(), Attachments(files))], UNBOUNDED):
        definition = json.loads(made.definition)
        written = manifest_text(made.kind, definition)
        (again,) = load_manifests([ManifestText("f", written, Attachments(files))], UNBOUNDED)
        definition.pop("code_file", None)
        assert (again.kind, json.loads(again.definition)) == (made.kind, definition)


def test_a_manifest_is_in_the_order_of_the_reference_and_without_defaults() -> None:
    text = (
        "steps: [{agent: a, step: one, optional: false, retry: {attempts: 2}}]\n"
        "name: Short\nkind: Workflow\ndescription: ''\nsettings: {parallel_steps: 3}\n"
    )
    (made,) = load_manifests([("f", text)], UNBOUNDED)
    assert manifest_text("Workflow", json.loads(made.definition)) == (
        "kind: Workflow\nname: Short\nsteps:\n- step: one\n  agent: a\n  retry:\n    attempts: 2\n"
    )


@pytest.mark.parametrize("value", [*TEXTS, 0, -1, 2**62, 0.5, 1e16, 1e-9, True, None, [], {}, [[]], {"a b": {"no": 1}}])
def test_any_value_is_read_as_it_was_written(value: Any) -> None:
    problems: list[Any] = []
    (node,) = read_documents(yaml_text({"value": value}), problems)
    assert not problems
    assert json.dumps(node.plain()) == json.dumps({"value": value})
