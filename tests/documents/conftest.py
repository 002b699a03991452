"""The service that readers of the documents have: the demonstration, with the settings that the pages show."""

import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.admin import Credentials
from tests.support.openai_server import OpenAIServer, Reply, ToolCall
from tests.support.page import FOLLOWED, blocks_of, follow
from tests.support.ports import reserved_port
from tests.support.s3_server import S3Server
from tests.support.service import Service

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MODEL = "https://api.openai.com/v1"
SETTINGS = "settings.toml"
"""Title of blocks with settings: the service has all of them."""
FUNCTIONS = """
workflow-api() {
    case "$1" in
        serve | console) _serves "$@" ;;
        *) command workflow-api "$@" ;;
    esac
}
# A service that a page starts beside the test's is stopped once it is ready.
_serves() {
    local ports=(--http 127.0.0.1:0) ready="$PAGE_FOLDER/.ready" process
    [[ $1 == console ]] || ports+=(--grpc 127.0.0.1:0 --data "$PAGE_FOLDER/served")
    [[ $1 == console || " $* " != *" --console "* ]] || ports+=(--console 127.0.0.1:0)
    rm -f "$ready"
    command workflow-api "$@" "${ports[@]}" --json >"$ready" & process=$!
    until [[ -s $ready ]]; do kill -0 "$process"; sleep 0.05; done
    kill "$process"
    wait "$process"
}
wfa() { python -c 'from workflow_api_client.command import main; raise SystemExit(main())' "$@"; }
"""
"""Commands that a page has, and the test has in another way."""


@dataclass(frozen=True)
class Reader:
    """Somebody who follows pages, in a folder for each, at a terminal that knows the service."""

    variables: dict[str, str]
    replaced: dict[str, str]
    folder: Path
    run_id: str
    """A finished run of the example `Text digest`."""
    log: Callable[[], str]
    """Returns the log of the service so far."""

    def follows(self, page: Path) -> None:
        """Runs a page; see `follow`."""
        folder = self.folder / "-".join(page.relative_to(ROOT).with_suffix("").parts)
        folder.mkdir()
        (folder / "examples").symlink_to(ROOT / "examples")
        (folder / "clients").symlink_to(ROOT / "clients")
        with reserved_port() as receiver, reserved_port() as proxy:
            replaced = {
                **self.replaced,
                ".venv/bin/workflow-api": "workflow-api",
                "9800": str(receiver),
                "listen 443": f"listen {proxy}",
                "localhost:443": f"localhost:{proxy}",
            }
            own = {
                "HOME": str(folder),
                # Where pip installs to.
                "PIP_TARGET": str(folder / "installed"),
                "PYTHONPATH": f"{folder / 'installed'}:{ROOT / 'clients' / 'python'}",
            }
            follow(page, folder, {**self.variables, **own}, replaced, before=FUNCTIONS + _api())


@pytest.fixture(scope="session")
def reader(tmp_path_factory: pytest.TempPathFactory, s3_process: S3Server) -> Iterator[Reader]:
    folder = tmp_path_factory.mktemp("reader")
    provider = OpenAIServer()
    provider.will(Reply(calls=(ToolCall("final_result", {"topic": "delivery", "urgent": True}),)))
    settings = folder / SETTINGS
    written = "\n".join(block.body for page in FOLLOWED for block in blocks_of(page) if block.title == SETTINGS)
    settings.write_text(written.replace(MODEL, provider.base_url))
    variables = {
        **{name: value for name, value in os.environ.items() if not name.startswith("WORKFLOW_API_")},
        "AWS_ACCESS_KEY_ID": "root",
        "AWS_SECRET_ACCESS_KEY": "not-a-secret",
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "127.0.0.1",
        "MODEL_API_KEY": "a-key-of-the-model",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PIP_NO_BUILD_ISOLATION": "false",
        "PIP_DISABLE_PIP_VERSION_CHECK": "true",
    }
    service = Service(folder, "--demo", "--console", "127.0.0.1:0", "--config", str(settings), variables=variables)
    service.start()
    try:
        ready = service.ready
        caller = service.caller(Credentials(ready["key"].partition(".")[0], ready["key"], ready["external_id"]))
        [digest] = caller.get("/workflows", q="Text digest").json()["items"]
        run = caller.finished(digest["workflow_id"], input_text="To be or not to be")
        yield Reader(
            {
                **variables,
                "WORKFLOW_API_GRPC": ready["grpc"],
                "WORKFLOW_API_URL": ready["base_address"].removesuffix("/api/v1"),
                "WORKFLOW_API_KEY": ready["key"],
                "WORKFLOW_API_EXTERNAL_ID": ready["external_id"],
            },
            {
                "127.0.0.1:8080": urlsplit(ready["base_address"]).netloc,
                "127.0.0.1:8081": urlsplit(ready["console"]).netloc,
                "run_…": run["run_id"],
                "wf_0123456789ab": digest["workflow_id"],
                "127.0.0.1:9090": ready["grpc"],
                "unix:/run/workflow-api/grpc.sock": ready["grpc"],
                "https://s3.example.org": s3_process.url,
                MODEL: provider.base_url,
            },
            folder,
            run["run_id"],
            service.log,
        )
    finally:
        service.stop()
        provider.close()


def _api() -> str:
    """Returns the function `api` of the page about clients, which other pages use."""
    page = (DOCS / "clients.md").read_text(encoding="utf-8")
    [found] = re.findall(r"^api\(\) \{\n.*?^\}\n", page, re.DOTALL | re.MULTILINE)
    return str(found)
