"""The repository explains itself: nothing in it refers to documents that are kept elsewhere."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ELSEWHERE = re.compile(r"\b(?:SPEC|DECISIONS|DESIGN|STYLE)\.md\b")
TEXTS = {".py", ".pyi", ".proto", ".md", ".toml", ".yaml", ".yml", ".html", ".css", ".js", ".sh", ".txt"}


def test_nothing_refers_to_documents_outside_the_repository() -> None:
    folders = [folder for folder in ROOT.iterdir() if folder.is_dir() and not folder.name.startswith(".")]
    files = [file for folder in folders for file in folder.rglob("*") if file.suffix in TEXTS]
    files += [file for file in ROOT.iterdir() if file.suffix in TEXTS]
    assert files
    assert [str(file.relative_to(ROOT)) for file in files if ELSEWHERE.search(file.read_text())] == []
