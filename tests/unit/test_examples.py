"""The generators of the examples, which their README has write into one folder."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_no_generator_overwrites_what_another_wrote(tmp_path: Path) -> None:
    written: dict[Path, bytes] = {}
    for generator in sorted(EXAMPLES.glob("*/generate.py")):
        subprocess.run([sys.executable, generator, tmp_path], check=True)
        assert {path: path.read_bytes() for path in written} == written
        written = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    expected = {path.name for path in written if path.name.startswith("expected")}
    assert expected == {"expected-invoices.json", "expected-research.json", "expected-tickets.json"}
