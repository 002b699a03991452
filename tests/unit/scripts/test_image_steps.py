"""What `make image` shows while it builds for minutes, with programs that only print."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.page import ROOT

DEBOOTSTRAP = """#!/bin/sh
echo "I: Retrieving packages"
for root; do :; done
mkdir -p "$root"
"""
BUILDAH = """#!/bin/sh
while [ "$1" != build ] && [ "$1" != push ] && [ $# -gt 1 ]; do shift; done
case $1 in
build) echo "STEP 1/2: FROM python"; printf sha256:0123 >"$3"; exit "$CODE" ;;
push) echo "Copying $2" ;;
*) echo container ;;
esac
"""


def build(folder: Path, *, code: int) -> subprocess.CompletedProcess[str]:
    for name, text in (("debootstrap", DEBOOTSTRAP), ("buildah", BUILDAH)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return subprocess.run(
        [sys.executable, "-m", "scripts.image", folder / "image.tar"],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "CODE": str(code)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_each_step_is_shown_with_what_its_program_prints(tmp_path: Path) -> None:
    ended = build(tmp_path, code=0)
    assert ended.returncode == 0, ended.stderr
    shown = [line.partition(" by ")[0] for line in ended.stdout.splitlines()]
    assert shown == [
        "--- Make the base",
        "I: Retrieving packages",
        "--- Store the base",
        "--- Build the image",
        "STEP 1/2: FROM python",
        f"--- Write {tmp_path / 'image.tar'}",
        "Copying 0123",
    ]


def test_a_step_that_fails_ends_the_build(tmp_path: Path) -> None:
    ended = build(tmp_path, code=3)
    assert (ended.returncode, ended.stderr) == (1, "buildah failed with exit code 3.\n")
