"""A Prometheus of the tests' own, on loopback."""

import json
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

import pytest

from tests.support.client import call
from tests.support.poll import until
from tests.support.ports import answers, reserved_port
from tests.support.wire import Answer


class PrometheusServer:
    """Prometheus that scrapes one target each second and evaluates a file of rules, in `folder`."""

    def __init__(self, folder: Path, target: str, rules: Path) -> None:
        if shutil.which("prometheus") is None:
            pytest.skip("prometheus is not installed (Debian: apt-get install prometheus)")
        self._folder = folder
        self._held = ExitStack()
        self._port = self._held.enter_context(reserved_port())
        settings = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rules)],
            "scrape_configs": [{"job_name": "workflow-api", "static_configs": [{"targets": [target]}]}],
        }
        # JSON is YAML, too.
        (folder / "prometheus.yml").write_text(json.dumps(settings), encoding="utf-8")

    def __enter__(self) -> Self:
        options = {
            "config.file": self._folder / "prometheus.yml",
            "storage.tsdb.path": self._folder / "data",
            "web.listen-address": f"127.0.0.1:{self._port}",
            "log.level": "error",
        }
        self._process = subprocess.Popen(
            ["prometheus", *(f"--{name}={value}" for name, value in options.items())], stdin=subprocess.DEVNULL
        )
        until(lambda: answers(self._port) and self._get("/-/ready").status == 200, "Prometheus to be ready")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(timeout=60)
        self._held.close()

    def get(self, path: str, **parameters: str) -> Any:
        """Returns the data of an answer of its API."""
        answer = self._get(f"/api/v1/{path}?{urlencode(parameters)}")
        assert answer.status == 200, answer.body
        return json.loads(answer.body)["data"]

    def series(self, expression: str) -> list[Any]:
        """Returns what an expression has now."""
        found: list[Any] = self.get("query", query=expression)["result"]
        return found

    def _get(self, path: str) -> Answer:
        return call(("127.0.0.1", self._port), "GET", path)
