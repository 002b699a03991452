"""How each fenced block of the documents is held to what the service does."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.documents.checks import CHECKS
from tests.documents.commands import problem_of
from tests.support.page import FOLLOWED, ROOT, SHELL, Block, blocks_of

PAGES: Final = sorted(
    {
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        ROOT / "redaction" / "README.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "clients").glob("*/README.md"),
        ROOT / "examples" / "README.md",
        *(ROOT / "examples").glob("*/README.md"),
        *(ROOT / "benchmarks").glob("*.md"),
    }
)
DRAWINGS: Final = {"text": "drawing or other text", "mermaid": "drawing"}
"""Languages of blocks that claim nothing a reader could run."""
TRIED: Final[Mapping[str, tuple[str, Mapping[str, int]]]] = {
    "clients/typescript/README.md": ("tests/clients/test_typescript.py", {"typescript": 2}),
    "docs/architecture.md": ("tests/unit/test_architecture.py", {"layers": 10}),
    "docs/clients.md": (
        "tests/clients/test_documentation.py",
        {"bash": 3, "go": 1, "java": 1, "python": 1, "typescript": 1},
    ),
    "docs/grpc.md": ("tests/services/test_grpc_page.py", {"bash": 2, "python": 5}),
    "docs/logs.md": ("tests/documents/test_logs_page.py", {"json": 1, "sh": 1}),
    "docs/operators-guide.md": ("tests/processes/test_operators_guide.py", {"sh": 12, "sql": 1}),
    "docs/testing.md": ("tests/services/test_testing_page.py", {"python": 3}),
    "docs/webhooks.md": (
        "tests/services/webhooks/test_webhooks_page.py",
        {"bash": 1, "http": 1, "python": 1, "sh": 2},
    ),
    "examples/README.md": ("tests/contract/test_examples.py", {"bash": 6}),
    "redaction/README.md": ("tests/unit/redaction/test_documentation.py", {"bash": 1, "python": 1}),
    **{
        f"examples/{name}/README.md": ("tests/contract/test_examples_to_start_from.py", {"bash": blocks})
        for name, blocks in (
            ("document-graph", 3),
            ("exchange-rates", 4),
            ("invoice-approval", 3),
            ("sales-report", 2),
        )
    },
}
"""Pages with a test of their own, and how many blocks of a language it tries: a block more is to be tried there."""


def holder(page: Path, block: Block) -> str | None:
    """Returns how a block is held; None if nothing holds it."""
    module, languages = TRIED.get(page.relative_to(ROOT).as_posix(), ("", {}))
    if block.reason is not None:
        return f"not run: {block.reason}"
    if page in FOLLOWED and (block.runs or block.is_output):
        return "run with its page" if block.runs else "compared with what is printed"
    if block.language in languages:
        return module
    if block.language in CHECKS:
        return f"checked as {block.language}"
    if block.language in SHELL and problem_of(block.body) is None:
        return "checked as command lines"
    return DRAWINGS.get(block.language)


def held_blocks() -> list[tuple[Path, Block, str | None]]:
    """Returns every block of every page with how it is held."""
    return [(page, block, holder(page, block)) for page in PAGES for block in blocks_of(page)]
