from pathlib import Path

import pytest

from backend.services.workflows.manifests.variables import VariableValue
from deploy.client.manifests import read_manifests
from deploy.client.nearby_manifests import named_documents, nearby_manifests
from deploy.failures import CommandError

WORKFLOW = """
kind: Workflow
name: Flow
steps: [{step: a, agent: writer, environment: large}, {step: b, agent: own}]
---
kind: Agent
name: own
"""


def test_only_documents_that_are_missing_are_taken_and_keep_their_lines(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(WORKFLOW)
    (tmp_path / "others.yml").write_text(
        "kind: Agent\nname: own\n---\nkind: Agent\nname: writer\ncode: x\n---\nkind: X\n"
    )
    (tmp_path / "broken.yaml").write_text("kind: Environment\nname: large\n---\na: [\n")

    nearby = nearby_manifests(read_manifests([str(tmp_path / "flow.yaml")]))

    assert nearby.places == [
        (("Environment", "large"), str(tmp_path / "broken.yaml")),
        (("Agent", "writer"), str(tmp_path / "others.yml")),
    ]
    assert nearby.files[1].content.splitlines()[:6] == ["", "", "", "kind: Agent", "name: writer", "code: x"]
    assert "own" not in nearby.files[1].content


def test_documents_come_with_the_code_that_they_name_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(WORKFLOW)
    (tmp_path / "writer.py").write_text("def run(context): ...")
    (tmp_path / "others.yaml").write_text(
        "kind: Agent\nname: writer\ntype: python\ncode_file: writer.py\n"
        "---\nkind: Agent\nname: other\ntype: python\ncode_file: gone.py\n"
    )

    nearby = nearby_manifests(read_manifests([str(tmp_path / "flow.yaml")]))

    (file,) = nearby.files
    assert [(each.path, each.content) for each in file.attached_files] == [("writer.py", b"def run(context): ...")]


def test_code_of_a_document_that_is_missing_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(WORKFLOW)
    (tmp_path / "others.yaml").write_text("---\nkind: Agent\nname: writer\ntype: python\ncode_file: gone.py\n")

    with pytest.raises(CommandError) as failed:
        nearby_manifests(read_manifests([str(tmp_path / "flow.yaml")]))

    (problem,) = failed.value.details
    assert problem["name"] == f"{tmp_path / 'others.yaml'}:5: code_file"
    assert "gone.py cannot be read" in problem["reason"]


def test_files_that_cannot_be_read_are_left_to_the_service(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text("kind: Workflow\nname: A\n---\n{")
    assert list(named_documents("Workflow", read_manifests([str(tmp_path / "flow.yaml")]))) == ["A"]


def test_names_are_compared_with_the_values_of_variables(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text("kind: Workflow\nname: A\nsteps: [{step: a, agent: 'writer-${vars.STAGE}'}]\n")
    (tmp_path / "writer.py").write_text("def run(context): ...")
    (tmp_path / "others.yaml").write_text(
        "kind: Agent\nname: ${vars.KIND}-test\ntype: python\ncode_file: ${vars.KIND}.py\n"
    )
    variables = {"STAGE": VariableValue("test"), "KIND": VariableValue("writer")}
    files = read_manifests([str(tmp_path / "flow.yaml")], variables)

    (file,) = nearby_manifests(files, variables).files
    assert [each.path for each in file.attached_files] == ["writer.py"]
    assert list(named_documents("Workflow", files, variables)) == ["A"]
