"""Decides the approvals of a run: by an option, or by asking at the terminal."""

import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from typing import Final

import typer

from deploy.cli.output.terminal import printable
from deploy.failures import CommandError
from workflow_api.v1 import runs_pb2

APPROVE: Final = ("ask", "yes", "no")

Answer = Callable[[runs_pb2.Approval, Callable[[], None]], bool]
"""Returns whether to approve; may call the function that shows what the approval is about."""

_ANSWERS: Final = {"y": True, "yes": True, "n": False, "no": False}


def answer_from(option: str, *, as_json: bool) -> Answer:
    """Returns how approvals are decided by `--approve`.

    The answer `ask` raises CommandError where there is no terminal to ask at.
    """
    if option not in APPROVE:
        raise typer.BadParameter(f"must be one of {', '.join(APPROVE)}, not {option!r}", param_hint="--approve")
    if option != "ask":
        return lambda *_: option == "yes"
    return _no_terminal if as_json or not sys.stdin.isatty() else _ask


def check_answerable(answer: Answer, steps: Sequence[str]) -> None:
    """Checks before a run that its approvals can be decided.

    Raises:
        CommandError: one would be asked for, and there is no terminal to ask at.
    """
    if steps and answer is _no_terminal:
        raise _needs_terminal(steps[0])


def _needs_terminal(step: str) -> CommandError:
    return CommandError(
        f"The step {step} waits for a decision, and there is no terminal to ask at: "
        "give --approve yes or --approve no.",
        code="approval_needed",
    )


def _no_terminal(approval: runs_pb2.Approval, _: Callable[[], None]) -> bool:
    raise _needs_terminal(approval.step)


def _ask(approval: runs_pb2.Approval, show: Callable[[], None]) -> bool:
    print(f"\n{printable(approval.title)}", file=sys.stderr)
    if approval.HasField("instructions"):
        print(printable(approval.instructions, lines=True), file=sys.stderr)
    with redirect_stdout(sys.stderr):
        show()
    print(file=sys.stderr)
    while True:
        print(f"Approve {printable(approval.step)}? [y/n] ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            raise CommandError(f"The step {approval.step} was not decided.", code="approval_needed")
        answer = _ANSWERS.get(line.strip().lower())
        if answer is not None:
            return answer
