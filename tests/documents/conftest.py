"""The service that readers of the documents have: the demonstration, with the settings that the pages show."""

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

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


@dataclass(frozen=True)
class Reader:
    """Somebody who follows pages, in a folder for each, at a terminal that knows the service."""

    variables: dict[str, str]
    replaced: dict[str, str]
    folder: Path

    def follows(self, page: Path) -> None:
        """Runs a page; see `follow`."""
        folder = self.folder / page.stem
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
            follow(page, folder, {**self.variables, "HOME": str(folder)}, replaced, before=_api())


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
        "PYTHONPATH": str(ROOT / "clients" / "python"),
    }
    service = Service(folder, "--demo", "--console", "127.0.0.1:0", "--config", str(settings), variables=variables)
    service.start()
    try:
        ready = service.ready
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
                "https://s3.example.org": s3_process.url,
                MODEL: provider.base_url,
            },
            folder,
        )
    finally:
        service.stop()
        provider.close()


def _api() -> str:
    """Returns the function `api` of the page about clients, which other pages use."""
    page = (DOCS / "clients.md").read_text(encoding="utf-8")
    [found] = re.findall(r"^api\(\) \{\n.*?^\}\n", page, re.DOTALL | re.MULTILINE)
    return str(found)
