from pathlib import Path

from deploy.cli.local.local_files import watched_files

MANIFEST = """
kind: Agent
name: reader
type: python
source: ./agents
entrypoint: read:run
---
kind: Agent
name: writer
type: python
code_file: code/write.py
"""


def test_what_manifests_and_options_name_is_watched_whatever_its_type(tmp_path: Path) -> None:
    files = {
        "flow.yaml": MANIFEST,
        "environments.yml": "kind: Environment\nname: e\npython: {requirements: needs.in}\n",
        "needs.in": "pandas",
        "agents/read.py": "",
        "agents/prompts/question.jinja": "",
        "agents/.hidden": "",
        "agents/__pycache__/read.pyc": "",
        "code/write.py": "",
        "code/unused.py": "",
        "inputs/deep/orders.csv": "",
        "text.md": "",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    others = [tmp_path / "inputs", tmp_path / "text.md", tmp_path / "missing"]
    found = {str(path.relative_to(tmp_path)) for path in watched_files([tmp_path / "flow.yaml"], others)}
    assert found == {
        *("flow.yaml", "environments.yml", "needs.in", "code/write.py", "text.md", "missing"),
        *("agents/read.py", "agents/prompts/question.jinja", "inputs/deep/orders.csv"),
    }


def test_a_manifest_that_names_other_files_is_read_again(tmp_path: Path) -> None:
    manifest = tmp_path / "flow.yaml"
    manifest.write_text(MANIFEST)
    assert tmp_path / "code/write.py" in set(watched_files([manifest], []))
    manifest.write_text(MANIFEST.replace("write.py", "another.py"))
    assert tmp_path / "code/another.py" in set(watched_files([manifest], []))
