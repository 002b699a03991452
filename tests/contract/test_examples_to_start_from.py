"""The examples with a folder and a README of their own: its commands, here and against a started service."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.openai_server import OpenAIServer, Reply, ToolCall
from tests.support.planted import plant
from tests.support.poll import until
from tests.support.ports import answers, reserved_port
from tests.support.s3_server import S3Server
from tests.support.service import Service
from workflow_api.v1 import runs_pb2

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
HERE, SERVER = "Run it here", "On a server"
COMMAND_SECONDS = 400
MODEL_KEY = "sk-planted-7c2"
RATES_KEY = "try-4f1D7cQxZ09aLm"

BRIGHTWATER = {
    "supplier": "Brightwater Supplies Ltd",
    "number": "BW-2291",
    "date": "2026-03-03",
    "currency": "GBP",
    "lines": [
        {"description": "Desk lamp", "amount": "139.60"},
        {"description": "Monitor arm", "amount": "178.00"},
        {"description": "Network cable, 10 m", "amount": "72.50"},
    ],
    "total": "390.10",
}
NORTHGATE = {
    "supplier": "Northgate Office Inc.",
    "number": "NG-88120",
    "date": "2026-03-17",
    "currency": "USD",
    "lines": [
        {"description": "Paper A4, 5 boxes", "amount": "112.50"},
        {"description": "Toner, black", "amount": "148.00"},
    ],
    "total": "269.50",
}


@dataclass(frozen=True)
class Reader:
    """Somebody who follows the README of one example, in a folder that holds a copy of the examples."""

    example: str
    folder: Path
    variables: dict[str, str]

    def scripts(self, heading: str) -> list[str]:
        """Returns the blocks of commands below a heading."""
        readme = (self.folder / "examples" / self.example / "README.md").read_text(encoding="utf-8")
        section = readme.split(f"\n## {heading}\n")[1].split("\n## ")[0]
        return re.findall(r"^```bash\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)

    def starts(self, script: str, **variables: str) -> subprocess.Popen[str]:
        """Starts a script that ends at its first failure."""
        return subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.folder,
            env={**self.variables, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def does(self, script: str, *, expected: int = 0, **variables: str) -> str:
        """Runs a script and returns what it printed."""
        return said_by(self.starts(script, **variables), expected)

    def follows(self, heading: str) -> list[str]:
        """Runs all commands below a heading; returns what each block printed."""
        return [self.does(script) for script in self.scripts(heading)]

    def text(self, path: str) -> str:
        return (self.folder / path).read_text(encoding="utf-8")


def said_by(process: subprocess.Popen[str], expected: int = 0) -> str:
    try:
        out, errors = process.communicate(timeout=COMMAND_SECONDS)
    finally:
        process.kill()
    assert process.returncode == expected, (out, errors)
    return out


def reader_of(example: str, folder: Path, **variables: str) -> Reader:
    """Copies the examples, so that what their commands write is beside the copy."""
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    own = {name: value for name, value in os.environ.items() if not name.startswith("WORKFLOW_API_")}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return Reader(example, folder, {**own, "PATH": path, "XDG_CACHE_HOME": str(folder / "cache"), **variables})


@contextmanager
def served(reader: Reader, *options: str) -> Iterator[tuple[Service, Reader]]:
    """Yields a started service with the reader's variables, and the reader at a terminal that knows where it is."""
    service = Service(reader.folder, *options, variables=reader.variables)
    service.start()
    try:
        yield (
            service,
            Reader(reader.example, reader.folder, {**reader.variables, "WORKFLOW_API_GRPC": service.ready["grpc"]}),
        )
    finally:
        service.stop()


@pytest.fixture
def provider() -> Iterator[OpenAIServer]:
    server = OpenAIServer()
    yield server
    server.close()


def package_index() -> dict[str, str]:
    """Returns the setting with the package index that pip asks on this machine; empty where it asks its default."""
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    index = os.environ.get("PIP_INDEX_URL") or asked.stdout.strip()
    # By way of a variable, since the address may hold credentials.
    return {"WORKFLOW_API_PACKAGES_INDEX_URL": "env:PACKAGE_INDEX", "PACKAGE_INDEX": index} if index else {}


@pytest.mark.timeout(900)
def test_the_sales_report_has_tables_a_chart_and_a_page_of_all_orders_but_two(tmp_path: Path) -> None:
    variables = {**package_index(), "WORKFLOW_API_PACKAGES_FOLDER": str(tmp_path / "packages")}
    reader = reader_of("sales-report", tmp_path, **variables)
    (printed,) = reader.follows(HERE)
    result = json.loads(printed)
    orders = list(csv.reader(reader.text("examples/sales-report/orders.csv").splitlines()))
    wrong = [43, 89]
    revenue: dict[str, int] = {}
    products: dict[str, int] = {}
    for line, (date, _, product, quantity, price) in enumerate(orders[1:], 2):
        if line not in wrong:
            cents = int(quantity) * int(price.replace(".", ""))
            revenue[date[:7]] = revenue.get(date[:7], 0) + cents
            products[product] = products.get(product, 0) + cents
    best = sorted(products.items(), key=lambda pair: -pair[1])[:3]
    assert (result["orders"], result["rejected_lines"]) == (len(orders) - 1 - len(wrong), wrong)
    assert result["revenue"] == sum(revenue.values()) / 100
    assert result["best_month"] == max(revenue, key=lambda month: revenue[month])
    assert result["products"] == [{"product": name, "revenue": cents / 100} for name, cents in best]
    monthly = csv.DictReader(reader.text("report/tables/monthly.csv").splitlines())
    sums = {row.pop("month"): round(100 * sum(map(float, row.values()))) for row in monthly}
    assert sums == revenue
    assert reader.text("report/report/report.md") == result["summary_markdown"]
    assert (reader.folder / "report/chart/revenue.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")

    with served(reader) as (service, at_server):
        at_server.follows(SERVER)
        (run,) = service.admin.runs.ListRuns(runs_pb2.ListRunsRequest()).items
        assert run.status == runs_pb2.RUN_STATUS_COMPLETED
        at_server.does(f"workflow-api runs download {run.run_id} --out fetched")
    assert reader.text("fetched/tables/monthly.csv") == reader.text("report/tables/monthly.csv")


def test_an_invoice_that_a_model_read_is_booked_only_once_it_is_approved(
    provider: OpenAIServer, tmp_path: Path
) -> None:
    reader = reader_of("invoice-approval", tmp_path, MODEL_API_KEY=MODEL_KEY)
    settings = tmp_path / "examples" / "invoice-approval" / "models.toml"
    settings.write_text(settings.read_text().replace("https://api.openai.com/v1", provider.base_url))

    incomplete = {name: value for name, value in BRIGHTWATER.items() if name != "total"}
    provider.will(answer(incomplete), answer(BRIGHTWATER))
    (printed,) = reader.follows(HERE)
    booked = {name: BRIGHTWATER[name] for name in ("supplier", "number", "date", "currency", "total")}
    assert json.loads(printed) == {**booked, "lines": 3, "problems": []}
    rows = list(csv.DictReader(reader.text("booked/book/booking.csv").splitlines()))
    assert [{"description": row["description"], "amount": row["amount"]} for row in rows] == BRIGHTWATER["lines"]
    text = reader.text("examples/invoice-approval/invoices/brightwater.txt")
    *_, asked = provider.requests[0].body["messages"]
    assert f"<input_text>\n{text.strip()}" in asked["content"]

    provider.will(answer(NORTHGATE))
    with served(reader, "--config", str(settings)) as (service, at_server):
        start, decide = at_server.scripts(SERVER)
        starting = at_server.starts(start)
        (approval,) = until(lambda: pending(service), "the approval")
        shown = at_server.does(decide, APPROVAL=approval)
        ended = said_by(starting, 1)
        (run,) = service.admin.runs.ListRuns(runs_pb2.ListRunsRequest()).items
        outputs = json.loads(at_server.does(f"workflow-api runs outputs {run.run_id} --json"))["items"]
    assert "the lines add up to 260.50, the total is 269.50" in shown
    assert run.client_reference == "NG-88120"
    assert "invariant_blocked" in ended
    assert not [output for output in outputs if "booking" in output["path"]]
    assert {request.headers["authorization"] for request in provider.requests} == {f"Bearer {MODEL_KEY}"}
    assert MODEL_KEY not in printed + shown + ended


def answer(invoice: dict[str, Any]) -> Reply:
    return Reply(calls=(ToolCall("final_result", invoice),))


def pending(service: Service) -> list[str]:
    found = service.admin.runs.ListPendingApprovals(runs_pb2.ListPendingApprovalsRequest()).items
    return [item.approval.approval_id for item in found]


def test_a_folder_of_documents_is_a_graph_that_answers_across_them(s3_server: S3Server, tmp_path: Path) -> None:
    reader = reader_of("document-graph", tmp_path, S3=s3_server.url)
    (printed,) = reader.follows(HERE)
    result = json.loads(printed)
    assert result == {
        "documents": 5,
        "people": 3,
        "topics": ["bearings", "lubrication", "planning", "pump 3", "vibration"],
        "links": 4,
        "rejected": [{"file": "inspections/2026-02-valve-7.md", "reason": "has no date"}],
        "dangling": [{"file": "reports/grease-intervals.md", "link": "suppliers/grease-data-sheet.md"}],
    }
    with served(reader) as (service, at_server):
        publish, query = at_server.scripts(SERVER)
        published, queried = at_server.does(publish), at_server.does(query)
        (run,) = service.admin.runs.ListRuns(runs_pb2.ListRunsRequest()).items
        assert run.status == runs_pb2.RUN_STATUS_COMPLETED, published
        at_server.does(publish.splitlines()[-1])
        assert len(service.admin.runs.ListRuns(runs_pb2.ListRunsRequest()).items) == 2
        queried_again = at_server.does(query)
    rows = [line.split()[0] for line in queried.splitlines() if line.startswith("2026-")]
    assert rows == ["2026-02-11", "2026-02-20", "2026-03-03", "2026-03-17"]
    assert "Plan for the spring stop" in queried
    assert "Tomasz Zieliński" in queried
    # The same documents have the same names in each run.
    assert queried_again == queried


@contextmanager
def exchange_rates(reader: Reader) -> Iterator[str]:
    """Starts the API of the example as its README says, on a free port; yields the command that runs the workflow."""
    start, run = reader.scripts(HERE)
    folder = reader.folder / "examples" / reader.example
    with reserved_port() as port:
        for name in ("api.py", "agents/rates.py"):
            (folder / name).write_text((folder / name).read_text().replace(":8099", f":{port}"))
        # Without a shell in between, which would be ended in its place.
        api = reader.starts(f"exec env {start}")
        try:
            until(lambda: answers(port), "the API")
            yield run
        finally:
            api.kill()
            api.communicate()


def test_rates_are_asked_with_a_secret_that_nothing_quotes(tmp_path: Path) -> None:
    plant(RATES_KEY)
    reader = reader_of("exchange-rates", tmp_path)
    with exchange_rates(reader) as run:
        assert RATES_KEY in run
        printed = reader.does(run)
        wrong = reader.starts(run.replace(RATES_KEY, "some-other-key"))
        _, said = wrong.communicate(timeout=COMMAND_SECONDS)
        settings = str(tmp_path / "examples" / "exchange-rates" / "settings.toml")
        keeping = Reader(reader.example, tmp_path, {**reader.variables, "RATES_API_KEY": RATES_KEY})
        with served(keeping, "--config", settings) as (service, at_server):
            start, audit = at_server.scripts(SERVER)
            at_server.does(start)
            (found,) = service.admin.runs.ListRuns(runs_pb2.ListRunsRequest()).items
            audited = at_server.does(f"{audit.strip()} --json", RUN=found.run_id)
            logged = at_server.does(f"workflow-api runs logs {found.run_id}")
    result = json.loads(printed)
    assert result == {
        "date": "2026-03-31",
        "base": "EUR",
        "total": 888.76,
        "converted": 5,
        "without_rate": ["Guest house"],
    }
    rows = list(csv.DictReader(reader.text("converted/convert/amounts.csv").splitlines()))
    assert (rows[0]["description"], rows[0]["amount_eur"]) == ("Hosting", "110.68")
    assert wrong.returncode == 1
    assert "the API refused the key in the secret 'rates-api' (HTTP 401)" in said
    assert "some-other-key" not in said
    assert found.status == runs_pb2.RUN_STATUS_COMPLETED
    (used,) = [record for record in json.loads(audited)["items"] if record["action"] == "secret.used"]
    assert used["details"]["secrets"] == ["rates-api"]
    assert RATES_KEY not in printed + audited + logged
    assert service.files_holding(RATES_KEY) == service.databases_holding(RATES_KEY) == []
    assert RATES_KEY not in service.log()
