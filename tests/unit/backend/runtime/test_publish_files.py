"""How much of a run one publication may take."""

import io

import pytest

from backend.graphs.graph import GraphRefusedError
from backend.runtime.publishing import files
from backend.runtime.publishing.files import PublishFile, triples_of

ENTRY = {"steps": None, "files": None, "mapping": None}
CONTENT = b"<x:a> <x:b> <x:c> .\n<x:a> <x:b> <x:d> .\n"


def count() -> int:
    given = [PublishFile(f"main/{name}.nt", lambda: io.BytesIO(CONTENT)) for name in ("one", "two")]
    return sum(1 for _ in triples_of(given, ENTRY, None))


@pytest.mark.parametrize(("bound", "whole"), [("MOST_TRIPLES", 4), ("MOST_CHARACTERS", 4 * len("<x:a> <x:b> <x:c>"))])
def test_a_publication_is_bounded_over_all_of_its_files(
    monkeypatch: pytest.MonkeyPatch, bound: str, whole: int
) -> None:
    monkeypatch.setattr(files, bound, whole)
    assert count() == 4
    monkeypatch.setattr(files, bound, whole - 1)
    with pytest.raises(GraphRefusedError, match=r"'main/two\.nt': with it .* more than"):
        count()
