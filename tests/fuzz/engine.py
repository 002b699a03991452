"""One target under Atheris, in a process of its own: `python -m tests.fuzz.engine NAME [libFuzzer's arguments]`.

A failing input is written to `-artifact_prefix`, and the exit code is not zero.
"""

import sys

import atheris

from tests.fuzz.target import DEEPEST_CALLS, load


def main() -> None:
    name, *arguments = sys.argv[1:]
    sys.setrecursionlimit(DEEPEST_CALLS)
    with atheris.instrument_imports(include=["backend", "edge"]):
        target = load(name)
    atheris.Setup([sys.argv[0], *arguments], target.check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
