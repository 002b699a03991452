"""Demonstration of `serve --demo`: applies the examples, creates key and administrator, and writes a script of calls.

The script has comments and blank lines, `export NAME=VALUE`, and calls that begin with `curl`, `NAME=$(curl`,
`until curl` (waits for a state of a run) or the path of `workflow-api`. Each call is one line that needs only the lines
before it, and every curl fails on an HTTP error (`-sS --fail-with-body`). Run as a whole by `bash -e`, the script ends
with code 0.
"""

import json
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contract.fields import SCOPES
from contract.routes import BASE
from deploy.client.backend import BackendClient, connected
from deploy.client.manifests import read_manifests
from deploy.config import addresses
from deploy.config.settings import ClientTls
from deploy.failures import CommandError
from workflow_api.v1 import keys_pb2, users_pb2, workflows_pb2

_PACKAGE: Final = Path(__file__).resolve().parent

MANIFESTS: Final = ("environments.yaml", "text-digest.yaml", "invoice-totals.yaml", "reviewed-report.yaml")

ACTOR: Final = "demo"
ADMINISTRATOR: Final = "admin"
KEY_NAME: Final = "Demo"
REQUESTS_A_MINUTE: Final = 600

DEFAULT_GRPC: Final = str(addresses.DEFAULT_GRPC)

# Variables that clients read, and that pages of docs/how-to use.
_URL: Final = "WORKFLOW_API_URL"
_KEY: Final = "WORKFLOW_API_KEY"
_EXTERNAL_ID: Final = "WORKFLOW_API_EXTERNAL_ID"
_CREDENTIALS: Final = f'-H "Authorization: Bearer ${_KEY}" -H "X-Service-Key-External-Id: ${_EXTERNAL_ID}"'
_KEPT: Final = re.compile(rf"^export {_KEY}=((ak_\w+)\.\S+)\nexport {_EXTERNAL_ID}=(\S+)$", re.MULTILINE)
_CURL: Final = "curl -sS --fail-with-body"
# Each answer is held until the run changes; the pause is for a key with too many held calls.
_HELD_SECONDS: Final = 30
_PAUSE_SECONDS: Final = 1
_MOST_POLLS: Final = 60
_TERMINAL: Final = "completed|failed|cancelled"


def examples_folder() -> Path:
    """Returns the folder of the examples."""
    for folder in (_PACKAGE / "examples", _PACKAGE.parent / "examples"):
        if (folder / MANIFESTS[0]).is_file():
            return folder
    raise CommandError("The example workflows are not part of this installation: serve without --demo.")


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A prepared demonstration: workflow ids by name, and credentials and password if this start created them.

    `key_ids` are keys of the demonstration that earlier starts created and that are in use.
    """

    workflows: Mapping[str, str]
    credentials: keys_pb2.KeyCredentials | None
    password: str | None = None
    key_ids: frozenset[str] = frozenset()


def prepare_demonstration(address: str, examples: Path, tls: ClientTls) -> Demonstration:
    """Applies the examples through the backend at `address`; creates key and administrator unless an earlier start did.

    No administrator is added if there were users before: their deletion or renaming was deliberate.
    """
    with connected(address, ACTOR, tls) as backend:
        files = read_manifests([str(examples / name) for name in MANIFESTS])
        applied = backend.call(backend.workflows.ApplyManifests, workflows_pb2.ApplyManifestsRequest(files=files))
        workflows = {resource.name: resource.id for resource in applied.items if resource.kind == "Workflow"}
        keys = _keys(backend)
        return Demonstration(
            workflows,
            None if keys else _create_key(backend),
            None if _has_users(backend) else _create_administrator(backend),
            frozenset(record.key.key_id for record in keys if record.state == "active"),
        )


def kept_credentials(script: Path, key_ids: AbstractSet[str]) -> keys_pb2.KeyCredentials | None:
    """Returns the credentials in the script of an earlier start, if their key is among `key_ids`, else None."""
    try:
        found = _KEPT.search(script.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None
    if found is None or found[2] not in key_ids:
        return None
    return keys_pb2.KeyCredentials(key_value=found[1], external_id=found[3])


@dataclass(frozen=True, slots=True)
class Script:
    """Script for one running demonstration: its workflow ids by name, and the credentials of a key, if any."""

    base: str
    grpc: str
    examples: Path
    workflows: Mapping[str, str]
    credentials: keys_pb2.KeyCredentials | None

    def lines(self) -> list[str]:
        """Returns the whole script."""
        return [
            "# Calls of the demonstration: paste any of this into a shell, from the top.",
            *self._variables(),
            "# The service, the calling key, and what it may run.",
            f"""{_CURL} -w '\\n' "${_URL}{BASE}/health\"""",
            _get("/me"),
            _get("/workflows"),
            *self._text_digest(),
            *self._invoice_totals(),
            *self._reviewed_report(),
        ]

    def first_line(self) -> str:
        """Returns a line that starts a run by the command and waits for it, without a key."""
        text = shlex.quote(f"@{self.examples / 'files' / 'gettysburg-address.txt'}")
        return self.command(f"runs start 'Text digest' --param top=5 --input-text {text} --wait")

    def command(self, arguments: str) -> str:
        """Returns a line that runs an administrator's command on this demonstration, whatever the shell's folder."""
        address = "" if self.grpc == DEFAULT_GRPC else f" --grpc {self.grpc}"
        return f"{_command()} {arguments}{address}"

    def _variables(self) -> list[str]:
        lines = [f"export {_URL}={self.base.removesuffix(BASE)}"]
        given = self.credentials
        if given is not None:
            return [*lines, f"export {_KEY}={given.key_value}", f"export {_EXTERNAL_ID}={given.external_id}"]
        scopes = ",".join(SCOPES)
        read = _python(
            "import json, sys; k = json.load(sys.stdin); "
            f'print("{_KEY}=" + k["key"], "{_EXTERNAL_ID}=" + k["external_id"])'
        )
        make = f"{_command()} keys create --name Another --scopes {scopes} --grpc {self.grpc} --json"
        lines += [
            f"# The key named {KEY_NAME} was given out by the first start alone, and is not known. This makes another.",
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
            f'{_CURL} -o text-digest.zip "${_URL}{BASE}/runs/$RUN/outputs.zip" {_CREDENTIALS}',
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
            # A held call would wait for the next change, which is the approval.
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
        workflow_id = self.workflows[workflow]
        data = _python(f"import json; print(json.dumps({body}))")
        name = workflow.casefold().replace(" ", "-")
        key = f'-H "Idempotency-Key: {name}-$(date +%s)"'
        url = f'"${_URL}{BASE}/workflows/{workflow_id}/runs"'
        return f'RUN=$({_CURL} -X POST {url} {_CREDENTIALS} {key} --data "$({data})" | {_pick("run_id")})'


def _keys(backend: BackendClient) -> list[keys_pb2.KeyRecord]:
    pages = backend.pages(backend.keys.ListKeys, keys_pb2.ListKeysRequest())
    return [record for page in pages for record in page.items if record.key.name == KEY_NAME]


def _has_users(backend: BackendClient) -> bool:
    return bool(backend.call(backend.users.ListUsers, users_pb2.ListUsersRequest(page_size=1)).items)


def _create_administrator(backend: BackendClient) -> str:
    request = users_pb2.CreateUserRequest(name=ADMINISTRATOR, role=users_pb2.ROLE_ADMINISTRATOR)
    return backend.call(backend.users.CreateUser, request).password


def _create_key(backend: BackendClient) -> keys_pb2.KeyCredentials:
    request = keys_pb2.CreateKeyRequest(
        name=KEY_NAME,
        description="Made by the first start of the demonstration.",
        scopes=SCOPES.values(),
        rate_limit_rpm=REQUESTS_A_MINUTE,
    )
    return backend.call(backend.keys.CreateKey, request)


def _get(path: str, end: str = " -w '\\n'") -> str:
    return f'{_CURL}{end} "${_URL}{BASE}{path}" {_CREDENTIALS}'


def _wait_for(statuses: str, *, held_seconds: int = _HELD_SECONDS) -> str:
    """Returns a line that waits, and fails after a time; that ends a script, but not an interactive shell."""
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
    """Returns the path of this command, or its short name if the shell finds this file by that name."""
    own = Path(sys.executable).parent / "workflow-api"
    found = shutil.which("workflow-api")
    return "workflow-api" if found and Path(found).resolve() == own.resolve() else shlex.quote(str(own))
