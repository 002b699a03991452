"""What people see of what a run made: bounded, and swept where the run's policy redacts and nothing has been yet."""

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backend.resources.redaction.confined_redactor import ConfinedRedactor
from backend.services.outputs import sql as outputs_sql
from backend.services.previews.servicer import Previews, PreviewsServicer
from tests.services.calls import Caller, RefusedError
from tests.services.runtime.conftest import RuntimeWorld, agent_step, gate
from tests.support.poll import until
from workflow_api.v1 import previews_pb2

MAIL = "jane.roe@example.com"
SWEPT = "[EMAIL_ADDRESS]"


class Desk:
    """A person's view of what runs made."""

    def __init__(self, world: RuntimeWorld, folder: Path) -> None:
        self.previews = Previews(world.services, world.objects, world.redactor, folder / "previews")
        service = previews_pb2.DESCRIPTOR.services_by_name["PreviewsService"]
        self._call = Caller(PreviewsServicer(self.previews), service)
        self._world = world

    def step(self, run_id: str, step: str) -> previews_pb2.StepPreview:
        found: list[previews_pb2.StepPreview] = []

        def prepared() -> bool:
            request = previews_pb2.GetStepPreviewRequest(run_id=run_id, step=step)
            found[:] = [self._call("GetStepPreview", request)]
            return not found[0].preparing

        until(prepared, "the preview")
        return found[0]

    def output(self, run_id: str, output_id: str) -> previews_pb2.OutputPreview:
        request = previews_pb2.GetOutputPreviewRequest(run_id=run_id, output_id=output_id)
        found: previews_pb2.OutputPreview = self._call("GetOutputPreview", request)
        return found

    def summary(self, run_id: str) -> previews_pb2.SummaryPreview:
        found: previews_pb2.SummaryPreview = self._call(
            "GetSummaryPreview", previews_pb2.GetSummaryPreviewRequest(run_id=run_id)
        )
        return found

    def close(self) -> None:
        self.previews.close()


@pytest.fixture
def desk(world: RuntimeWorld, tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(world, tmp_path / "desk")
    yield desk
    desk.close()


def ran(world: RuntimeWorld, code: str, policy: dict[str, Any] | None = None, *, parks: bool = False) -> str:
    """Returns a run of an agent with this code, which has ended, or waits for a person behind it."""
    manifest = {"kind": "Agent", "name": "maker", "type": "python", "code": textwrap.dedent(code)}
    world.apply(json.dumps(manifest))
    steps = [agent_step("make", "maker"), *([gate("review", "make")] if parks else [])]
    workflow: dict[str, Any] = {} if parks else {"result": {"step": "make"}}
    run_id = world.run("Made", steps, workflow=workflow | ({"pii_policy": policy} if policy else {}))
    if parks:
        world.until_status(run_id, "waiting_for_approval")
    else:
        world.until_ended(run_id)
    return run_id


LEFT = f"""
    def run(context):
        (context.outputs / "{MAIL}.txt").write_text("hello")
        return {{"who": "{MAIL}"}}
"""


def test_a_step_shows_its_value_and_its_files(world: RuntimeWorld, desk: Desk) -> None:
    found = desk.step(ran(world, LEFT), "make")
    assert (json.loads(found.value.text), found.files_total, found.redacted) == ({"who": MAIL}, 1, False)
    assert [(file.path, file.size_bytes) for file in found.files] == [(f"make/{MAIL}.txt", 5)]


@pytest.mark.parametrize("stages", [["inputs"], ["steps"], ["outputs"]])
def test_where_the_policy_redacts_a_step_shows_nothing_unswept_whatever_its_stages(
    world: RuntimeWorld, desk: Desk, stages: list[str]
) -> None:
    found = desk.step(ran(world, LEFT, {"mode": "redact", "stages": stages}, parks=True), "make")
    assert found.redacted
    assert json.loads(found.value.text) == {"who": SWEPT}
    assert [file.path for file in found.files] == [f"make/{SWEPT}.txt"]


def test_a_step_that_cannot_be_swept_is_not_shown_and_the_reason_is(
    world: RuntimeWorld, desk: Desk, own_redactor: ConfinedRedactor
) -> None:
    run_id = ran(world, LEFT, {"mode": "redact", "stages": ["outputs"]}, parks=True)
    own_redactor.close()
    found = desk.step(run_id, "make")
    assert found.problem.startswith("It could not be swept for personal data")
    assert not found.HasField("value")


@pytest.mark.parametrize(("step", "reason"), [("none", "not_found"), ("", "invalid_request")])
def test_an_unknown_step_is_refused(world: RuntimeWorld, desk: Desk, step: str, reason: str) -> None:
    with pytest.raises(RefusedError) as caught:
        desk.step(ran(world, LEFT), step)
    assert caught.value.reason == reason


def outputs_of(world: RuntimeWorld, run_id: str) -> dict[str, str]:
    rows = world.services.database.read(lambda tx: outputs_sql.outputs_of(tx, run_id))
    return {row.path: row.output_id for row in rows}


def test_the_beginning_of_a_long_text_is_shown_in_any_encoding_with_and_without_line_ends(
    world: RuntimeWorld, desk: Desk
) -> None:
    run_id = ran(
        world,
        """
        def run(context):
            for encoding in ("utf-8", "utf-16"):
                for name, text in (("lines", "a\\n" + "Ċż\\n" * 90_000), ("line", "a" + "ż" * 200_000)):
                    (context.outputs / f"{name}-{encoding}.txt").write_bytes(text.encode(encoding))
        """,
    )
    texts = {path: each for path, each in outputs_of(world, run_id).items() if path.endswith(".txt")}
    assert len(texts) == 4
    shown = {path: desk.output(run_id, each).file for path, each in texts.items()}
    for path, file in shown.items():
        expected = "a\n" + "Ċż\n" * 90_000 if "lines" in path else "a" + "ż" * 200_000
        assert (file.problem, file.text.text, file.text.cut) == ("", expected[:65_536], True)


def test_outputs_are_shown_as_text_table_or_html(world: RuntimeWorld, desk: Desk, tmp_path: Path) -> None:
    table = tmp_path / "table.parquet"
    pq.write_table(pa.table({"n": list(range(300))}), table)
    run_id = ran(
        world,
        f"""
        def run(context):
            (context.outputs / "notes.md").write_text("# Notes\\n\\n<script>x</script>")
            (context.outputs / "table.csv").write_text("a,b\\n1,2\\n")
            (context.outputs / "long.txt").write_text("x" * 300_000)
            (context.outputs / "t.parquet").write_bytes({table.read_bytes()!r})
            (context.outputs / "raw.bin").write_bytes(bytes(range(256)))
            (context.outputs / "bad.parquet").write_bytes(b"PAR1 and no more")
        """,
    )
    ids = outputs_of(world, run_id)
    found = {path: desk.output(run_id, output_id) for path, output_id in ids.items()}
    assert found["make/notes.md"].html == "<h1>Notes</h1>\n<p>&lt;script&gt;x&lt;/script&gt;</p>\n"
    assert [list(row.cells) for row in found["make/table.csv"].file.table.rows] == [["1", "2"]]
    assert (len(found["make/t.parquet"].file.table.rows), found["make/t.parquet"].file.table.cut) == (200, True)
    assert (len(found["make/long.txt"].file.text.text), found["make/long.txt"].file.text.cut) == (65_536, True)
    assert found["make/raw.bin"].file.problem == "It is neither text nor a table."
    assert found["make/bad.parquet"].file.problem == "It is malformed, or too large to be read here."


def test_outputs_of_a_run_that_goes_on_are_not_shown(world: RuntimeWorld, desk: Desk) -> None:
    run_id = ran(world, LEFT, parks=True)
    (file,) = desk.step(run_id, "make").files
    with pytest.raises(RefusedError) as caught:
        desk.output(run_id, file.output_id)
    assert caught.value.reason == "run_not_terminal"


def test_a_summary_is_html_in_which_markup_stays_text(world: RuntimeWorld, desk: Desk) -> None:
    code = """
        def run(context):
            return {"summary_markdown": "| a |\\n|---|\\n| <b>1</b> |"}
    """
    found = desk.summary(ran(world, code))
    assert "<table>" in found.html
    assert "&lt;b&gt;1&lt;/b&gt;" in found.html
    assert not desk.summary(ran(world, LEFT)).HasField("html")
