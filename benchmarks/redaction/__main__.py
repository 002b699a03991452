"""Measures the redaction engine: precision and recall by entity type, speed, and the cost of hostile texts.

`python -m benchmarks.redaction`; with `--large 1000`, the memory that files of a gigabyte take; with `--leaks 20`, the
leak and over-redaction of 20 copies of each labelled document, with `--local` also by the local model.
"""

import argparse
import io
import json
import math
import os
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from backend.common.secrets import Secrets
from backend.resources.models import Models
from backend.resources.redaction.confined_redactor import ConfinedRedactor
from backend.services.workflows import pii_policy
from benchmarks.redaction.leaks import report
from redaction.entity_types import ENTITY_TYPES
from redaction.policy import LOCAL
from redaction.redactor import Redactor
from redaction.search.finder import Finder
from tests.support.redaction.corpus import LabelledText, corpus, log, prose, table
from tests.support.redaction.hostile import UNITS, hostile
from tests.support.redaction.values import MAKERS


def scores(labelled: LabelledText, confidence: float) -> dict[str, tuple[float, float, float]]:
    """Returns precision, recall, and the share of values that are hidden completely, under any entity type."""
    found = Finder(ENTITY_TYPES, confidence).find(labelled.text)
    right: Counter[str] = Counter()
    named: Counter[str] = Counter(match.entity for match in found)
    hit: Counter[str] = Counter()
    hidden: Counter[str] = Counter()
    total: Counter[str] = Counter(label for _, _, label in labelled.labels)
    place = 0
    for start, end, label in labelled.labels:
        while place < len(found) and found[place].end <= start:
            place += 1
        over = [match for match in found[place : place + 4] if match.start < end and match.end > start]
        same = sum(match.entity == _entity(label) for match in over)
        right[_entity(label)] += same
        hit[label] += same > 0
        hidden[label] += sum(min(match.end, end) - max(match.start, start) for match in over) == end - start
    return {
        label: (
            right[_entity(label)] / named[_entity(label)] if named[_entity(label)] else 1.0,
            hit[label] / total[label],
            hidden[label] / total[label],
        )
        for label in MAKERS
    }


def _entity(label: str) -> str:
    return label.partition(" ")[0]


def quality(values: int) -> None:
    """Prints a table by entity type for three thresholds."""
    labelled = corpus(7, values)
    by = {confidence: scores(labelled, confidence) for confidence in (0.5, 0.8, 1.0)}
    print("| type | precision 0.5 | recall 0.5 | hidden 0.5 | precision 0.8 | recall 0.8 | hidden 0.8 | recall 1.0 |")
    print("|---|---|---|---|---|---|---|---|")
    for entity in MAKERS:
        low, middle, high = by[0.5][entity], by[0.8][entity], by[1.0][entity]
        print(f"| {entity} | " + " | ".join(f"{share:.2f}" for share in (*low, *middle, high[1])) + " |")


def speed(size: int) -> None:
    """Prints megabytes per second of CPU time for each kind of file, in the process that final sweeps use."""
    people = table(size)
    rows = pa_csv.read_csv(io.BytesIO(people.encode()))
    buffer = io.BytesIO()
    pq.write_table(rows, buffer)
    lines = "".join(json.dumps(row, default=str) + "\n" for row in rows.to_pylist())
    labelled = corpus(8, 400).text
    contents = {
        "prose.txt": prose(size).encode(),
        "one-line.txt": prose(size).replace("\n", " ").encode(),
        "server.log": log(size).encode(),
        "labelled.txt": (labelled * (size // len(labelled) + 1))[:size].encode(),
        "people.csv": people.encode(),
        "people.jsonl": lines.encode(),
        "people.parquet": buffer.getvalue(),
    }
    print("| file | MB | values | MB/s |")
    print("|---|---|---|---|")
    redactor = _redactor()
    policy = pii_policy.normalise({"mode": "redact"})
    try:
        with tempfile.TemporaryDirectory() as folder:
            first = Path(folder, "first.txt")
            first.write_text("a first sweep")
            redactor.file(policy, first, Path(folder, "swept"), first.name, owner="key")
            for name, content in contents.items():
                source = Path(folder, name)
                source.write_bytes(content)
                began = sum(map(_cpu_seconds, redactor.pids))
                outcome, _ = redactor.file(policy, source, Path(folder, "swept"), name, owner="key")
                took = sum(map(_cpu_seconds, redactor.pids)) - began
                # Parquet is compressed: its cost depends on the size of its text.
                read = len(people) if name.endswith(".parquet") else len(content)
                print(f"| {name} | {read / 1e6:.1f} | {outcome.values:,} | {read / took / 1e6:.2f} |")
    finally:
        redactor.close()


def hostile_speed(size: int) -> None:
    """Prints the CPU time per byte of each hostile text relative to prose, the most expensive first."""
    print("| text, repeated | times prose at 0.8 | at 0.5 |")
    print("|---|---|---|")
    engines = [Redactor({"mode": "redact", "min_confidence": confidence}) for confidence in (0.8, 0.5)]
    base = [_sweep_seconds(engine, prose(size)) for engine in engines]
    rows = []
    for unit in UNITS:
        text = hostile(unit, size)
        times = [_sweep_seconds(engine, text) / seconds for engine, seconds in zip(engines, base, strict=True)]
        shown = unit if len(unit) <= 40 else f"{unit[:37]}..."
        rows.append((times, ascii(shown).replace("|", "\\|")))
    for (strict, wide), shown in sorted(rows, key=lambda row: -max(row[0])):
        print(f"| `{shown}` | {strict:.1f} | {wide:.1f} |")


def _sweep_seconds(engine: Redactor, text: str) -> float:
    best = math.inf
    for _ in range(3):
        began = time.process_time()
        engine.text(text)
        best = min(best, time.process_time() - began)
    return best


def large(megabytes: int) -> None:
    """Prints the peak memory of sweeping a small and a large file, each in a process that final sweeps use.

    Raises:
        OSError: the disk has no space for a file and its copy.
    """
    people = table(2_000_000)
    header, _, rows = people.partition("\n")
    text = corpus(8, 400).text
    contents = {
        "text.txt": ("", text),
        "one-line.txt": ("", text.replace("\n", " ")),
        "people.csv": (header + "\n", rows),
    }
    policy = pii_policy.normalise({"mode": "redact"})
    print("| file | MB | values | most memory, MB |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        if shutil.disk_usage(folder).free < 3 * megabytes * 1_000_000:
            raise OSError(f"{folder} has no space for {megabytes:,} MB and their copy")
        for name, (first, block) in contents.items():
            for size in (10, megabytes):
                source, target = Path(folder, name), Path(folder, "swept")
                _fill(source, first.encode(), block.encode(), size * 1_000_000)
                redactor = _redactor()
                try:
                    outcome, _ = redactor.file(policy, source, target, name, owner="key")
                    peak = max(map(_peak_megabytes, redactor.pids))
                finally:
                    redactor.close()
                print(f"| {name} | {size:,} | {outcome.values:,} | {peak:.0f} |", flush=True)
                source.unlink()
                target.unlink()


def _redactor() -> ConfinedRedactor:
    """Returns a redactor that removes its scratch folder when it is closed."""
    return ConfinedRedactor(Models(Secrets(), {}), scratch=Path(tempfile.mkdtemp(prefix="redaction-")))


def _fill(path: Path, first: bytes, block: bytes, size: int) -> None:
    with path.open("wb") as file:
        file.write(first)
        while file.tell() < size:
            file.write(block)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_megabytes(pid: int) -> float:
    [line] = [one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if one.startswith("VmHWM")]
    return int(line.split()[1]) / 1000


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", type=int, default=400, help="values of each type")
    parser.add_argument("--megabytes", type=float, default=4.0, help="size of each file")
    parser.add_argument(
        "--large", type=int, metavar="MEGABYTES", help="measure only the memory that files so large take"
    )
    parser.add_argument("--leaks", type=int, metavar="COPIES", help="measure only what stays readable in documents")
    parser.add_argument("--local", action="store_true", help="with --leaks, ask the local model beside the rules")
    arguments = parser.parse_args()
    if arguments.leaks:
        report(arguments.leaks, LOCAL if arguments.local else None)
    elif arguments.large:
        large(arguments.large)
    else:
        quality(arguments.values)
        speed(int(arguments.megabytes * 1e6))
        hostile_speed(60_000)
