"""Runs `workflow-api serve` and counts the functions of the repository that calls pass: for `benchmarks.path`.

A line on standard input begins a count, which an empty line answers; the next one ends it and has it printed as JSON.
All threads count, but for the thread that reads these lines.
"""

import json
import sys
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

_ROOT: Final = Path(__file__).resolve().parent.parent
_OWN: Final = tuple(f"{_ROOT / name}/" for name in ("backend", "console", "contract", "deploy", "edge", "telemetry"))


class _Counter:
    def __init__(self) -> None:
        self.counting = False
        self.calls: Counter[CodeType] = Counter()

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        if self.counting and event == "call" and frame.f_code.co_filename.startswith(_OWN):
            self.calls[frame.f_code] += 1

    def serve(self) -> None:
        sys.setprofile(None)
        for _ in sys.stdin:
            self.counting = not self.counting
            if self.counting:
                self.calls.clear()
                print(flush=True)
                continue
            counted = dict(self.calls)
            files = sorted({Path(code.co_filename).relative_to(_ROOT).as_posix() for code in counted})
            print(json.dumps({"files": files, "calls": sum(counted.values())}), flush=True)


def main() -> None:
    """Serves until it is terminated; its arguments are those of `workflow-api`."""
    from deploy.cli.main import main as command

    counter = _Counter()
    threading.Thread(target=counter.serve, daemon=True).start()
    threading.setprofile(counter.profile)
    sys.setprofile(counter.profile)
    command()


if __name__ == "__main__":
    main()
