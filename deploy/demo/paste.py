"""What a demonstration gives its user to paste: one line, and a script of calls of the HTTP API.

The script has comments and blank lines, `export NAME=VALUE`, and calls that
begin with `curl`, `NAME=$(curl`, `until curl` (waits for a state of a run) or the path of `workflow-api`. Each call is
one line that needs only the lines before it, and every curl fails on an HTTP error (`-sS --fail-with-body`). Run as a
whole by `bash -e`, the script ends with code 0.
"""

import json
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contract.spellings import SCOPES
from deploy.config import addresses
from deploy.demo.setup import KEY_NAME, Demonstration

DEFAULT_GRPC: Final = str(addresses.DEFAULT_GRPC)

_CREDENTIALS: Final = '-H "Authorization: Bearer $KEY" -H "X-Service-Key-External-Id: $EXTERNAL_ID"'
_CURL: Final = "curl -sS --fail-with-body"
# Each answer is held until something changes; the pause is for a key that may hold no more of them.
_HELD_SECONDS: Final = 30
_PAUSE_SECONDS: Final = 1
_MOST_POLLS: Final = 60
_TERMINAL: Final = "completed|failed|cancelled"


@dataclass(frozen=True, slots=True)
class Script:
    """Script for one running demonstration."""

    base: str
    grpc: str
    examples: Path
    demonstration: Demonstration

    def lines(self) -> list[str]:
        """Returns the whole script."""
        return [
            "# Calls of the demonstration: paste any of this into a shell, from the top.",
            *self._variables(),
            "# The service, the calling key, and what it may run.",
            f"""{_CURL} -w '\\n' "$BASE/health\"""",
            _get("/me"),
            _get("/workflows"),
            *self._text_digest(),
            *self._invoice_totals(),
            *self._reviewed_report(),
        ]

    def first_line(self) -> str:
        """Returns a line that starts a run by the command and waits for it, without a key."""
        text = shlex.quote(f"@{self.examples / 'files' / 'gettysburg-address.txt'}")
        arguments = f"--param top=5 --input-text {text} --wait"
        address = "" if self.grpc == DEFAULT_GRPC else f" --grpc {self.grpc}"
        return f"{_command()} runs start 'Text digest' {arguments}{address}"

    def _variables(self) -> list[str]:
        lines = [f"export BASE={self.base}"]
        credentials = self.demonstration.credentials
        if credentials is not None:
            lines += [f"export KEY={credentials.key_value}", f"export EXTERNAL_ID={credentials.external_id}"]
            return lines
        scopes = ",".join(SCOPES)
        read = _python(
            'import json, sys; k = json.load(sys.stdin); print("KEY=" + k["key"], "EXTERNAL_ID=" + k["external_id"])'
        )
        make = f"{_command()} keys create --name Another --scopes {scopes} --grpc {self.grpc} --json"
        lines += [
            f"# The key named {KEY_NAME} was given out by the first start alone. This makes another.",
            f"export $({make} | {read})",
        ]
        return lines

    def _text_digest(self) -> list[str]:
        body = f'{{"input_text": {self._text_of("gettysburg-address.txt")}, "parameters": {{"top": 5}}}}'
        return [
            "",
            "# Text digest: start a run, wait for its end, read its events, fetch what it made.",
            self._start("Text digest", body),
            _wait_for(_TERMINAL),
            _get("/runs/$RUN/steps"),
            _get("/runs/$RUN/events"),
            _get("/runs/$RUN/outputs"),
            f"OUTPUT=$({_get('/runs/$RUN/outputs', end='')} | {_pick('items', 0, 'output_id')})",
            _get("/runs/$RUN/outputs/$OUTPUT/content"),
            f'{_CURL} -o text-digest.zip "$BASE/runs/$RUN/outputs.zip" {_CREDENTIALS}',
        ]

    def _invoice_totals(self) -> list[str]:
        body = f'{{"parameters": {{"rows": {self._text_of("invoices.csv")}, "rates": {{"USD": 0.92}}}}}}'
        return [
            "",
            "# Invoice totals: no rate for GBP is given, so the optional last step fails and the run has a warning.",
            self._start("Invoice totals", body),
            _wait_for(_TERMINAL),
            _get("/runs/$RUN/outputs"),
        ]

    def _reviewed_report(self) -> list[str]:
        body = f'{{"input_text": {self._text_of("meeting-notes.txt")}, "parameters": {{"title": "Harbour office"}}}}'
        command, grpc = _command(), f"--grpc {self.grpc}"
        return [
            "",
            "# Reviewed report: the run waits for a person, who approves it with the workflow-api command.",
            self._start("Reviewed report", body),
            # A call that is held would wait for the next change, which is the approval.
            _wait_for("waiting_for_approval|failed|cancelled", held_seconds=0),
            _get("/runs/$RUN/events"),
            f"{command} approvals list {grpc}",
            f"APPROVAL=$({_get('/runs/$RUN/approvals', end='')} | {_pick('items', 0, 'approval_id')})",
            f'{command} approvals approve "$APPROVAL" --comment "Complete" {grpc}',
            _wait_for(_TERMINAL),
            _get("/runs/$RUN/outputs"),
        ]

    def _text_of(self, name: str) -> str:
        return f'open({json.dumps(str(self.examples / "files" / name))}, encoding="utf-8").read()'

    def _start(self, workflow: str, body: str) -> str:
        workflow_id = self.demonstration.workflows[workflow]
        data = _python(f"import json; print(json.dumps({body}))")
        name = workflow.casefold().replace(" ", "-")
        key = f'-H "Idempotency-Key: {name}-$(date +%s)"'
        url = f'"$BASE/workflows/{workflow_id}/runs"'
        return f'RUN=$({_CURL} -X POST {url} {_CREDENTIALS} {key} --data "$({data})" | {_pick("run_id")})'


def _get(path: str, end: str = " -w '\\n'") -> str:
    return f'{_CURL}{end} "$BASE{path}" {_CREDENTIALS}'


def _wait_for(statuses: str, *, held_seconds: int = _HELD_SECONDS) -> str:
    """Returns a line that fails after a time; in a script that ends it, in a shell that it is pasted to it does not."""
    call = _get("/runs/$RUN" + (f"?wait_seconds={held_seconds}" if held_seconds else ""), end="")
    late = '{ echo "$RUN takes too long" >&2; unset LEFT; false; break; }'
    polls = f"[ $((LEFT=${{LEFT:-{_MOST_POLLS}}}-1)) -gt 0 ] || {late}; sleep {_PAUSE_SECONDS}"
    return f"""until {call} | grep -E '"status":"({statuses})"'; do {polls}; done; unset LEFT"""


def _pick(*path: str | int) -> str:
    steps = "".join(f"[{step!r}]" for step in path).replace("'", '"')
    return _python(f"import json, sys; print(json.load(sys.stdin){steps})")


def _python(code: str) -> str:
    python = "python3" if shutil.which("python3") else shlex.quote(sys.executable)
    return f"{python} -c {shlex.quote(code)}"


def _command() -> str:
    """Returns the path of this command, or its short name where the shell finds the same file by it."""
    own = Path(sys.executable).parent / "workflow-api"
    found = shutil.which("workflow-api")
    return "workflow-api" if found and Path(found).resolve() == own.resolve() else shlex.quote(str(own))
