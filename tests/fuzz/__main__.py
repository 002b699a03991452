"""Fuzzes every target for a while, several side by side: `make fuzz`. See docs/fuzzing.md."""

import argparse
import importlib.util
import os
import random
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests.fuzz.rounds import ROUNDS
from tests.fuzz.target import DEEPEST_CALLS, TARGETS, load, shown

WORK: Final = Path(".fuzz")
_SLOWEST_SECONDS: Final = 60
_MAX_MIB: Final = 2_048
_EXECUTED: Final = re.compile(r"number_of_executed_units: (\d+)|^(\d+ rounds)", re.MULTILINE)
_FAILED_SEED: Final = re.compile(r"^failed with seed (\d+)", re.MULTILINE)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join((*TARGETS, *ROUNDS))}")
    parser.add_argument("--seconds", type=float, default=600, help="for each target")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="targets side by side")
    parser.add_argument("--seed", type=int, default=random.randrange(1, 10**6))
    parser.add_argument("--input", type=Path, help="try the one target on this file, and nothing else")
    given = parser.parse_args()
    names = given.targets or [*TARGETS, *ROUNDS]
    unknown = set(names) - {*TARGETS, *ROUNDS}
    if unknown:
        parser.error(f"no target is called {', '.join(sorted(unknown))}")
    if given.input:
        _try(names[0], given.input)
        return
    if importlib.util.find_spec("atheris") is None and set(names) & set(TARGETS):
        parser.error("Atheris is not installed; it is there for Linux on x86-64 and Python 3.11 to 3.13")
    print(f"{len(names)} targets, {given.seconds:g} s each, {given.jobs} side by side, seed {given.seed}", flush=True)
    with ThreadPoolExecutor(given.jobs) as pool:
        held = list(pool.map(lambda name: _fuzz(name, given.seconds, given.seed), names))
    sys.exit(0 if all(held) else 1)


def _try(name: str, path: Path) -> None:
    sys.setrecursionlimit(DEEPEST_CALLS)
    load(name).check(path.read_bytes())
    print(f"{name} holds for {path}")


def _fuzz(name: str, seconds: float, seed: int) -> bool:
    """Runs one target in a process of its own, and says what came of it."""
    folder = WORK / name
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log"
    before = set(folder.glob("failed-*"))
    command = _rounds(name, seconds, seed) if name in ROUNDS else _engine(name, seconds, seed, folder)
    start = time.monotonic()
    with log.open("w") as file:
        code = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=False).returncode
    text = log.read_text(errors="replace")
    executed = _EXECUTED.search(text)
    done = (executed[1] or executed[2]) if executed else "?"
    print(
        f"{name}: {'held' if code == 0 else 'FAILED'}, {done} executed in {time.monotonic() - start:.0f} s", flush=True
    )
    if code != 0:
        print("\n".join(["", *text.splitlines()[-60:], "", *_how_to_repeat(name, text, before)]), flush=True)
    return code == 0


def _engine(name: str, seconds: float, seed: int, folder: Path) -> list[str]:
    target = load(name)
    corpus, words = folder / "corpus", folder / "words"
    target.fill(corpus)
    words.write_text(target.dictionary())
    return [
        *(sys.executable, "-m", "tests.fuzz.engine", name, str(corpus), *([f"-dict={words}"] if target.words else [])),
        *(f"-max_total_time={seconds:.0f}", f"-seed={seed}", f"-max_len={target.longest}", "-print_final_stats=1"),
        *(f"-timeout={_SLOWEST_SECONDS}", f"-rss_limit_mb={_MAX_MIB}", f"-artifact_prefix={folder / 'failed-'}"),
    ]


def _rounds(name: str, seconds: float, seed: int) -> list[str]:
    return [sys.executable, "-m", "tests.fuzz.rounds", name, f"{seconds:g}", str(seed)]


def _how_to_repeat(name: str, text: str, before: set[Path]) -> list[str]:
    seed = _FAILED_SEED.search(text)
    if seed:
        return [f'again: make fuzz SECONDS=1 ARGS="{name} --seed {seed[1]}"']
    lines = []
    for path in sorted(set((WORK / name).glob("failed-*")) - before):
        lines += [f"input: {shown(path.read_bytes())}", f'again: make fuzz ARGS="{name} --input {path}"']
    return lines or [f"no input was left; the whole log is {WORK / name / 'log'}"]


if __name__ == "__main__":
    main()
