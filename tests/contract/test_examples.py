"""The examples on real files: the commands of their README against a started service, and their outputs."""

import json
import os
import re
import signal
import struct
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.client import Caller
from tests.support.openai_server import OpenAIServer, Reply, ToolCall
from tests.support.poll import until
from tests.support.ports import answers, reserved_port
from tests.support.s3_server import S3Server
from tests.support.service import Service
from workflow_api.v1 import workflows_pb2

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
MODEL_KEY = "sk-planted-4a1"
README = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")

SUMMING = """
kind: Agent
name: share-{number}
type: python
code: |
  def run(context):
      files = sorted((context.inputs / "objects").iterdir())[{number}::20]
      total = sum(sum(map(int, path.read_text().split())) for path in files)
      (context.outputs / "sum.txt").write_text(str(total))
---"""
STEP = "\n  - {{step: s{number}, agent: share-{number}, environment: standard}}"
MANY = f"""
kind: Environment
name: standard
---
kind: Connector
name: many
type: s3
bucket: many
endpoint_url: ENDPOINT
---{"".join(SUMMING.format(number=number) for number in range(20))}
kind: Workflow
name: Many
status: active
parameters:
  - {{name: objects, type: s3_prefix, connector: many, required: true, max_objects: 1000}}
settings: {{parallel_steps: 10}}
steps:{"".join(STEP.format(number=number) for number in range(20))}
"""


@dataclass(frozen=True)
class Reader:
    """Somebody who follows the README in a folder of their own."""

    caller: Caller
    folder: Path
    variables: dict[str, str]

    def follow(self, heading: str) -> str:
        """Runs the commands below the heading as one script that ends at the first failure; returns what they said."""
        section = README.split(f"\n### {heading}\n")[1].split("\n### ")[0]
        script = "\n".join(re.findall(r"^```bash\n(.*?)^```$", section, re.DOTALL | re.MULTILINE))
        return self.does(script)

    def does(self, script: str) -> str:
        ended = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=ROOT,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=90,
            check=False,
        )
        assert ended.returncode == 0, (ended.stdout, ended.stderr)
        return ended.stdout

    def json(self, path: str) -> Any:
        return json.loads((self.folder / path).read_text(encoding="utf-8"))


@pytest.fixture
def provider() -> Iterator[OpenAIServer]:
    server = OpenAIServer()
    yield server
    server.close()


@pytest.fixture
def served(s3_server: S3Server, provider: OpenAIServer, tmp_path: Path) -> Iterator[Service]:
    """A service that finds its object storage and its model where the README says."""
    config = tmp_path / "examples.toml"
    (settings,) = re.findall(r"^```toml\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    config.write_text(settings.replace("https://api.openai.com/v1", provider.base_url))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MODEL_API_KEY", MODEL_KEY)
        service = Service(tmp_path, "--config", str(config))
        service.start()
    try:
        yield service
    finally:
        service.stop()


@pytest.fixture
def reader(served: Service, s3_server: S3Server, tmp_path: Path) -> Reader:
    caller = served.new_caller()
    folder = tmp_path / "folder"
    folder.mkdir()
    variables = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "WORKFLOW_API_GRPC": served.ready["grpc"],
        "WORKFLOW_API_URL": "http://{}:{}".format(*served.address),
        "WORKFLOW_API_KEY": caller.key,
        "WORKFLOW_API_EXTERNAL_ID": caller.external_id,
        "S3": s3_server.url,
        "FOLDER": str(folder),
    }
    reader = Reader(caller, folder, variables)
    reader.does("workflow-api apply examples/environments.yaml")
    return reader


def test_the_commands_before_the_first_example_start_a_store_and_a_service(tmp_path: Path) -> None:
    (tmp_path / ".venv").symlink_to(Path(sys.prefix))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (settings,) = re.findall(r"^```toml\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    (tmp_path / "examples.toml").write_text(settings)
    apply, serve, prepare, *_ = re.findall(r"^```bash\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    with reserved_port() as store, reserved_port() as http, reserved_port() as grpc:
        variables = {
            **os.environ,
            "WORKFLOW_API_EDGE_HTTP": f"127.0.0.1:{http}",
            "WORKFLOW_API_BACKEND_GRPC": f"127.0.0.1:{grpc}",
            "WORKFLOW_API_GRPC": f"127.0.0.1:{grpc}",
        }
        here = {"5000": str(store), "127.0.0.1:8080": f"127.0.0.1:{http}"}

        def started(script: str) -> subprocess.Popen[bytes]:
            for old, new in here.items():
                script = script.replace(old, new)
            command = ["bash", "-euo", "pipefail", "-c", script]
            return subprocess.Popen(command, cwd=tmp_path, env=variables, start_new_session=True)

        serving = started(serve)
        try:
            until(lambda: answers(store) and answers(grpc) and answers(http), "the store and the service")
            asked = "curl -sS --fail $WORKFLOW_API_URL/api/v1/health\ncurl -sS --fail $S3 -o /dev/null\n"
            ended = started(f"{prepare}\n{apply}\n{asked}")
            assert ended.wait(timeout=120) == 0
            assert serving.poll() is None
        finally:
            os.killpg(serving.pid, signal.SIGTERM)
            serving.wait(timeout=60)


def everything_shown(caller: Caller, run: dict[str, Any]) -> str:
    """Everything that the API shows of a run, except its outputs."""
    paths = ("", "/events?limit=500", "/steps", "/approvals", "/outputs", "/pii-redaction")
    segments = caller.events(run["run_id"])["segments"]
    pages = [caller.events(run["run_id"], segment=segment["segment_id"], limit=500) for segment in segments]
    return "".join(caller.get(f"/runs/{run['run_id']}{path}").body.decode() for path in paths) + json.dumps(pages)


def test_tickets_are_released_redacted_and_counted_after_an_approval(reader: Reader) -> None:
    said = reader.follow("Tickets")
    run, expected = reader.json("released/run.json"), reader.json("expected-tickets.json")
    assert (run["status"], run["warnings"]) == ("completed", [])
    assert run["result"]["categories"] == expected["categories"]
    assert run["result"]["tickets"] == expected["tickets"] == 300
    rows = "".join(f"{name},{count}\r\n" for name, count in expected["categories"].items())
    released = reader.folder / "released" / "release"
    assert (released / "categories.csv").read_bytes().decode() == "category,tickets\r\n" + rows

    copies = {path.relative_to(released / "tickets"): path for path in (released / "tickets").rglob("*.jsonl")}
    assert len(copies) == 3
    for name, copy in copies.items():
        written = [json.loads(line) for line in copy.read_text(encoding="utf-8").splitlines()]
        given = (reader.folder / "tickets" / name).read_text(encoding="utf-8").splitlines()
        for ticket, original in zip(written, map(json.loads, given), strict=True):
            kept = ("ticket", "opened", "subject")
            assert [ticket[field] for field in kept] == [original[field] for field in kept]
            assert ticket["customer"] == {"name": "[PERSON]", "email": "[EMAIL_ADDRESS]", "phone": "[PHONE_NUMBER]"}
            assert ticket["message"].endswith("\nRegards, [PERSON]")

    shown = said + everything_shown(reader.caller, run)
    shown += "".join(path.read_text(encoding="utf-8") for path in released.rglob("*") if path.is_file())
    assert len(expected["personal"]) > 700
    assert [value for value in expected["personal"] if value in shown] == []
    manifest = reader.caller.get(f"/runs/{run['run_id']}/pii-redaction").json()
    assert {stage["stage"]: stage["status"] for stage in manifest["stages"]} == dict.fromkeys(
        ("inputs", "steps", "outputs"), "completed"
    )
    assert set(manifest["categories"]) == {"PERSON", "EMAIL_ADDRESS", "PHONE_NUMBER", "CREDIT_CARD", "IBAN_CODE"}


def test_tickets_that_are_rejected_leave_no_file(reader: Reader) -> None:
    upload, *_ = README.split("### Tickets\n\n```bash\n")[1].split("APPROVAL=")
    run_id = reader.does(upload + "echo $RUN").split()[-1]
    reader.does(f"workflow-api approvals reject $(python examples/call.py approval {run_id}) --comment 'Not yet'")
    run = reader.caller.wait(run_id)
    assert run["error"]["code"] == "invariant_blocked"
    until(lambda: reader.caller.get(f"/runs/{run_id}/outputs").status == 200, "the sweep")
    assert reader.caller.outputs(run_id) == {}


def pixels(png: bytes) -> list[list[bytes]]:
    """The rows of an image of three bytes a pixel, without filters; every checksum is looked at."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    chunks, place = {}, 8
    while place < len(png):
        length, kind = struct.unpack(">I4s", png[place : place + 8])
        data, end = png[place + 8 : place + 8 + length], place + 12 + length
        assert zlib.crc32(kind + data) == int.from_bytes(png[end - 4 : end], "big")
        chunks[kind], place = data, end
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, *form = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert form == [8, 2, 0, 0, 0]
    raw, stride = zlib.decompress(chunks[b"IDAT"]), 1 + 3 * width
    assert len(raw) == stride * height
    rows = [raw[start : start + stride] for start in range(0, len(raw), stride)]
    assert {row[0] for row in rows} == {0}
    return [[row[1 + 3 * x : 4 + 3 * x] for x in range(width)] for row in rows]


def test_a_folder_of_200_invoices_is_summed_to_the_cent_and_charted(reader: Reader) -> None:
    said = reader.follow("Invoices")
    run, expected = reader.json("totals/run.json"), reader.json("expected-invoices.json")
    assert (run["status"], run["warnings"]) == ("completed", [])
    assert run["inputs_manifest"][0]["objects"] == expected["files"] == 200
    totals = [
        {"currency": currency, "invoices": total["invoices"], "amount": f"{total['cents'] / 100:.2f}"}
        for currency, total in expected["totals"].items()
    ]
    made = reader.json("totals/totals/totals.json")
    assert run["result"]["totals"] == made["totals"] == totals
    assert [one["file"] for one in made["rejected"]] == expected["rejected"]
    rows = [f"{total['currency']},{total['invoices']},{total['amount']}" for total in totals]
    table = (reader.folder / "totals/totals/totals.csv").read_bytes().decode()
    assert table.splitlines() == ["currency,invoices,amount", *rows]
    summary = (reader.folder / "totals/summary/summary.md").read_text()
    assert run["summary_markdown"] == summary
    assert summary in said
    assert all(f"| {total['currency']} | {total['invoices']} | {total['amount']} |" in summary for total in totals)

    image = pixels((reader.folder / "totals/chart/totals.png").read_bytes())
    assert (len(image[0]), len(image)) == (160 * len(totals), 320)
    white, black = b"\xff\xff\xff", b"\0\0\0"
    greatest = max(total["cents"] for total in expected["totals"].values())
    for number, total in enumerate(expected["totals"].values()):
        column = [row[160 * number + 45] for row in image]
        tall = sum(pixel not in {white, black} for pixel in column)
        assert abs(tall - 240 * total["cents"] / greatest) <= 1
        below = [pixel for row in image[285:] for pixel in row[160 * number : 160 * (number + 1)]]
        assert black in below
    assert reader.caller.get(f"/runs/{run['run_id']}/pii-redaction").code == "pii_redaction_not_applied"


def test_notes_of_a_model_are_published_and_queried(reader: Reader, provider: OpenAIServer) -> None:
    reader.does("python examples/research/generate.py $FOLDER")
    expected = reader.json("expected-research.json")
    provider.will(
        Reply(calls=(ToolCall("final_result", {"notes": [{"title": "Soil"}]}),)),
        Reply(calls=(ToolCall("final_result", expected),)),
    )
    said = reader.follow("Research")
    run = reader.json("notes/run.json")
    assert (run["status"], run["warnings"]) == ("completed", [])
    assert reader.json("notes/notes/answer.json") == expected
    topics = sorted({note["topic"] for note in expected["notes"]})
    assert {name: run["result"][name] for name in ("papers", "topics")} == {"papers": 12, "topics": topics}

    assert len(provider.requests) == 2
    text = (reader.folder / "reading-list.md").read_text(encoding="utf-8")
    assert f"<input_text>\n{text.strip()}" in "".join(map(str, contents(provider.requests[0].body)))
    assert {request.headers["authorization"] for request in provider.requests} == {f"Bearer {MODEL_KEY}"}
    assert MODEL_KEY not in said + everything_shown(reader.caller, run)

    counted = [line.split() for line in said.splitlines() if "/topic/" in line]
    counts = Counter(note["topic"] for note in expected["notes"])
    base = "https://research.example.org"
    assert counted == [[f"{base}/topic/{topic.replace(' ', '%20')}", str(counts[topic])] for topic in topics]
    rows = reader.json("brandt.json")["results"]["bindings"]
    assert [(row["year"]["value"], row["name"]["value"]) for row in rows] == sorted(
        (str(note["year"]), note["title"]) for note in expected["notes"] if "S. Brandt" in note["authors"]
    )
    events = {event["type"]: event["data"] for event in reader.caller.events(run["run_id"], limit=500)["events"]}
    facts = sum(5 + len(note["authors"]) for note in expected["notes"])
    graph = f"{base}/run/{run['run_id']}"
    assert events["publish.completed"] == {"knowledge_graph": "research", "graph": graph, "triples": facts}


def contents(body: Any) -> list[Any]:
    return [message["content"] for message in body["messages"]]


def test_20_steps_at_10_in_parallel_read_1000_objects_in_bounded_memory(
    s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = {f"in/{n:04}.txt": f"{n}\n".encode() * 400 for n in range(1000)}
    s3_server.fill("many", bodies)
    # One slot stays free for other keys.
    monkeypatch.setenv("WORKFLOW_API_RUNTIME_STEP_SLOTS", "11")
    # Environments of 2,048 MB, which they may take and do not, whatever this machine has.
    monkeypatch.setenv("WORKFLOW_API_RUNTIME_MEMORY_MB", str(11 * 2048))
    service = Service(tmp_path)
    service.start()
    try:
        workflow = service.admin.apply(MANY.replace("ENDPOINT", s3_server.url))["Many"]
        assert service.admin.workflows.TestConnector(workflows_pb2.TestConnectorRequest(name="many")).passed
        caller = service.new_caller()
        run = caller.wait(caller.started(workflow, parameters={"objects": "s3://many/in/"}), seconds=90)
        assert run["status"] == "completed", run
        shares = {
            path: int(caller.get(f"/runs/{run['run_id']}/outputs/{output['output_id']}/content").body)
            for path, output in caller.outputs(run["run_id"]).items()
        }
        assert shares == {f"s{n}/sum.txt": 400 * sum(range(n, 1000, 20)) for n in range(20)}
        steps = caller.get(f"/runs/{run['run_id']}/steps").json()["items"]
        spans = [(step["started_at"], step["finished_at"]) for step in steps]
        assert max(sum(begin <= moment < end for begin, end in spans) for moment, _ in spans) == 10
        assert run["inputs_manifest"][0]["objects"] == 1000
        assert service.peak_memory() < 400 * 2**20
    finally:
        service.stop()
