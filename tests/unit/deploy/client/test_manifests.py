"""Manifest files are read within the bound of one call, which the proto of `ApplyManifests` has."""

from pathlib import Path

import pytest

from deploy.client.manifests import read_manifests
from deploy.failures import CommandError

BOUND = 48 * 2**20


def agents(folder: Path, count: int) -> str:
    """Returns a manifest whose agents have a folder of 10 MB each."""
    for number in range(count):
        (folder / f"a{number}").mkdir()
        (folder / f"a{number}" / "main.py").write_text("def run(context): ...\n")
        with (folder / f"a{number}" / "data.bin").open("wb") as file:
            file.truncate(10_000_000 + number)
    documents = (
        f"{{kind: Agent, name: a{n}, type: python, source: a{n}, entrypoint: 'main:run'}}" for n in range(count)
    )
    manifest = folder / "agents.yaml"
    manifest.write_text("\n---\n".join(documents))
    return str(manifest)


def test_a_manifest_that_is_too_large_is_not_parsed_and_told_with_its_bound(tmp_path: Path) -> None:
    large = tmp_path / "large.yaml"
    with large.open("wb") as file:
        file.truncate(BOUND + 1)
    with pytest.raises(CommandError) as refused:
        read_manifests([str(large)])
    assert refused.value.to_text() == f"{large}: must have at most 50,331,648 bytes, with the files that it names"


def test_files_that_are_too_large_together_are_told_with_the_largest(tmp_path: Path) -> None:
    assert read_manifests([agents(tmp_path, 5)])
    (tmp_path / "more").mkdir()
    with pytest.raises(CommandError) as refused:
        read_manifests([agents(tmp_path / "more", 6)])
    assert refused.value.code == "invalid_request"
    assert refused.value.to_text().startswith("The files of one apply must have at most 50,331,648 bytes together; ")
    assert "the largest, a5/data.bin, has 10,000,005" in refused.value.to_text()
