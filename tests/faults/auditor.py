"""Compares a journal with the state of the deployment: `python -m tests.faults.auditor JOURNAL --scene SCENE`.

Prints for each rule how many cases were checked and how many violate it; exits with 1 if any does.
"""

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Final

from tests.faults import rules
from tests.faults.answers import for_the_moment
from tests.faults.journal import Record, read
from tests.faults.state import State, look

_SHOWN: Final = 10
_LONGEST_LINE: Final = 1_500


def report(record: Record, state: State) -> tuple[str, int]:
    """What there is to print, and how many violations there are."""
    lines = [f"{'held against':>12} {'violations':>10}  rule"]
    examples = []
    violations = 0
    for sentence, (held, broken) in rules.found(record, state).items():
        lines.append(f"{held:>12,} {len(broken):>10,}  {sentence}")
        violations += len(broken)
        examples += [f"! {sentence}: {each}"[:_LONGEST_LINE] for each in broken[:_SHOWN]]
    return "\n".join([*lines, *_figures(record, state), *examples, f"violations: {violations}"]), violations


def _figures(record: Record, state: State) -> list[str]:
    statuses = Counter(row.status for row in state.runs.values())
    errors = Counter(
        f"{error['code']} ({error['message']})"
        for shown in state.shown_runs.values()
        if shown.get("status") == "failed" and (error := shown["error"])
    )
    erased = sum(row.purged_at is not None for row in state.runs.values())
    passing = sum(for_the_moment(call) for call in record.calls)
    return [
        f"calls: {len(record.calls):,}, {len(record.calls) - passing:,} answered, {passing:,} not or for the moment",
        f"runs: {dict(statuses)}, failed as {dict(errors)}, erased {erased}",
        f"objects: {len(state.objects):,}; longest use of a revoked key: {rules.longest_use(record):.1f} s",
    ]


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("journal", type=Path)
    arguments.add_argument("--scene", type=Path, required=True, help="where the deployment is, as a campaign writes it")
    given = arguments.parse_args()
    text, violations = report(read(given.journal), look(json.loads(given.scene.read_text())))
    sys.stdout.write(text + "\n")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
