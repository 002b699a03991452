"""What a person sees before they decide: swept by the run's policy, bounded, and kept until the run is erased."""

import json
import textwrap
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backend.common.principal import Principal
from backend.common.secrets import Secrets
from backend.resources.models import Models
from backend.resources.redaction.confined_redactor import ConfinedRedactor
from backend.services.reviews import material, preparations, servicer
from backend.services.reviews.servicer import Reviews, ReviewsServicer
from backend.settings import ModelProvider, RedactionLimits
from backend.storage.object_keys import run_prefix
from tests.services.calls import Caller, RefusedError
from tests.services.runtime.conftest import RuntimeWorld, agent_step, gate
from tests.support.openai_server import OpenAIServer, Reply, ToolCall
from tests.support.poll import LONGEST_WAIT_SECONDS, until
from workflow_api.v1 import reviews_pb2

OPERATOR = Principal(None, "tester", "req_1")
MAIL = "jane.roe@example.com"
SWEPT = "[EMAIL_ADDRESS]"
AGENT = f"""
    def run(context):
        (context.outputs / "notes.md").write_text("# Notes for {MAIL}")
        (context.outputs / "table.csv").write_text("name,mail\\nJane,{MAIL}\\n")
        (context.outputs / "{MAIL}.json").write_text('{{"to": "{MAIL}"}}')
        (context.outputs / "chart.png").write_bytes(bytes(range(256)))
        (context.outputs / "raw.bin").write_bytes(bytes(range(256)))
        return {{"who": "{MAIL}"}}
"""
Look = Callable[[str], reviews_pb2.Review]


@pytest.fixture(autouse=True)
def _agents(idle_world: RuntimeWorld) -> None:
    idle_world.apply(json.dumps({"kind": "Agent", "name": "teller", "type": "python", "code": textwrap.dedent(AGENT)}))


@pytest.fixture
def listening() -> Iterator[OpenAIServer]:
    server = OpenAIServer()
    yield server
    server.close()


class Desk:
    """A person's view of approvals."""

    def __init__(self, world: RuntimeWorld, folder: Path, redactor: ConfinedRedactor | None = None) -> None:
        self.reviews = Reviews(world.services, world.objects, redactor or world.redactor, folder / "reviews")
        self._call = Caller(ReviewsServicer(self.reviews), reviews_pb2.DESCRIPTOR.services_by_name["ReviewsService"])

    def look(self, approval_id: str, *, without_material: bool = False) -> reviews_pb2.Review:
        found: list[reviews_pb2.Review] = []
        request = reviews_pb2.GetReviewRequest(approval_id=approval_id, without_material=without_material)

        def prepared() -> bool:
            found[:] = [self._call("GetReview", request)]
            return not found[0].preparing

        until(prepared, "the review")
        return found[0]

    def decisions(self, run_id: str) -> list[reviews_pb2.Decision]:
        return list(self._call("ListDecisions", reviews_pb2.ListDecisionsRequest(run_id=run_id)).items)

    def close(self) -> None:
        self.reviews.close()


@pytest.fixture
def desk(world: RuntimeWorld, tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(world, tmp_path / "desk")
    yield desk
    desk.close()


def parked(world: RuntimeWorld, policy: dict[str, Any] | None = None, agent: str = "teller") -> tuple[str, str]:
    run_id = world.run(
        "Review",
        [agent_step("count", agent), gate("review", "count"), agent_step("after", "echo", "review")],
        workflow={"pii_policy": policy} if policy else {},
        input_text=f"from {MAIL}",
    )
    world.until_status(run_id, "waiting_for_approval")
    return run_id, world.approvals(run_id)["review"]


def files(shown: reviews_pb2.Review) -> dict[str, reviews_pb2.ReviewFile]:
    (step,) = shown.material.steps
    return {file.path: file for file in step.files}


def test_a_review_shows_inputs_and_values_and_files_of_the_steps_that_it_needs(world: RuntimeWorld, desk: Desk) -> None:
    run_id, approval_id = parked(world)
    shown = desk.look(approval_id)
    assert (shown.state, shown.pending.run_id) == (reviews_pb2.APPROVAL_STATE_PENDING, run_id)
    assert shown.material.input_text.text == f"from {MAIL}"
    (step,) = shown.material.steps
    assert (step.step, json.loads(step.value.text), step.files_total) == ("count", {"who": MAIL}, 5)
    found = files(shown)
    assert found["count/notes.md"].text.text == f"# Notes for {MAIL}"
    assert list(found["count/table.csv"].table.columns) == ["name", "mail"]
    assert [list(row.cells) for row in found["count/table.csv"].table.rows] == [["Jane", MAIL]]
    assert found["count/chart.png"].problem.startswith("By its content it is no PNG, JPEG, GIF or WebP picture")
    assert found["count/raw.bin"].problem == "It is neither text nor a table."
    assert not shown.material.redacted


def test_a_review_without_its_material_is_prepared_too(world: RuntimeWorld, desk: Desk) -> None:
    _, approval_id = parked(world)
    shown = desk.look(approval_id, without_material=True)
    assert shown.state == reviews_pb2.APPROVAL_STATE_PENDING
    assert not shown.HasField("material")
    assert desk.look(approval_id).HasField("material")


def test_an_answer_that_is_a_file_too_is_shown_once(world: RuntimeWorld, desk: Desk) -> None:
    code = """
        def run(context):
            (context.outputs / "answer.json").write_text('{"words": 2}')
            (context.outputs / "other.txt").write_text('{"words": 3}')
            return {"words": 2}
    """
    world.apply(json.dumps({"kind": "Agent", "name": "twice", "type": "python", "code": textwrap.dedent(code)}))
    shown = desk.look(parked(world, agent="twice")[1])
    (step,) = shown.material.steps
    assert not step.HasField("value")
    assert json.loads(files(shown)["count/answer.json"].text.text) == {"words": 2}


@pytest.mark.parametrize("stages", [["inputs"], ["steps"], ["outputs"], ["inputs", "steps", "outputs"]])
def test_where_the_policy_redacts_nothing_unswept_is_shown_whatever_its_stages(
    world: RuntimeWorld, desk: Desk, stages: list[str]
) -> None:
    run_id, approval_id = parked(world, {"mode": "redact", "stages": stages})
    shown = desk.look(approval_id)
    assert shown.material.redacted
    assert MAIL not in str(shown)
    assert json.loads(shown.material.steps[0].value.text) == {"who": SWEPT}
    found = files(shown)
    assert found["count/notes.md"].text.text == f"# Notes for {SWEPT}"
    assert found["count/table.csv"].table.rows[0].cells[1] == SWEPT
    assert f"count/{SWEPT}.json" in found
    folder = world.stored_below(run_prefix(run_id)) / "reviews"
    assert MAIL.encode() not in b"".join(path.read_bytes() for path in folder.iterdir()), "nor kept"


def test_what_cannot_be_swept_is_not_shown_and_the_reason_is(
    world: RuntimeWorld, desk: Desk, own_redactor: ConfinedRedactor
) -> None:
    _, approval_id = parked(world, {"mode": "redact", "stages": ["outputs"]})
    own_redactor.close()
    shown = desk.look(approval_id)
    assert shown.problem.startswith("It could not be swept for personal data, so nothing of it is shown: ")
    assert not shown.HasField("material")


def test_a_review_is_made_once_and_is_gone_with_the_runs_data(
    world: RuntimeWorld, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, approval_id = parked(world)
    first = desk.look(approval_id).material
    monkeypatch.setattr(servicer, "make_material", None)
    assert desk.look(approval_id).material == first
    world.cancel(run_id)
    world.until_ended(run_id)
    assert desk.look(approval_id).state == reviews_pb2.APPROVAL_STATE_WITHDRAWN
    world.erase(run_id)
    until(lambda: not world.stored_below(run_prefix(run_id)).exists(), "the removal")
    with pytest.raises(RefusedError) as caught:
        desk.look(approval_id)
    assert caught.value.reason == "not_found"


def test_large_files_are_shown_by_their_beginning_only_where_nothing_must_be_swept(
    world: RuntimeWorld, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(material, "LARGEST_FILE", 20)
    monkeypatch.setattr(material, "LARGEST_UNSWEPT", 20)
    _, open_one = parked(world)
    found = files(desk.look(open_one))["count/table.csv"]
    assert (list(found.table.columns), found.table.cut) == (["name", "mail"], True)
    _, swept = parked(world, {"mode": "redact"})
    found = files(desk.look(swept))["count/table.csv"]
    assert found.problem == "It has more than 20 bytes, and all of it would have to be swept first."


def test_files_past_the_bound_of_all_together_are_named_only(
    world: RuntimeWorld, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(material, "MOST_UNSWEPT_BYTES", 300)
    monkeypatch.setattr(material, "MOST_FILES", 4)
    _, approval_id = parked(world)
    found = files(desk.look(approval_id))
    assert len(found) == 4
    assert sum("300 bytes together" in file.problem for file in found.values()) == 2


def test_previews_past_the_bound_of_all_together_are_named_only(
    world: RuntimeWorld, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(material, "MOST_SHOWN_CHARS", 40)
    found = files(desk.look(parked(world)[1]))
    shown = sum(
        len(file.text.text) + len("".join("".join(row.cells) for row in file.table.rows)) for file in found.values()
    )
    assert 0 < shown <= 40
    assert "Previews of more than 40 characters together are not shown." in [file.problem for file in found.values()]


def test_parquet_is_shown_as_a_table(world: RuntimeWorld, desk: Desk, tmp_path: Path) -> None:
    table = tmp_path / "table.parquet"
    pq.write_table(pa.table({"mail": [MAIL], "n": [1]}), table)
    code = f"def run(context):\n    (context.outputs / 't.parquet').write_bytes({table.read_bytes()!r})\n"
    world.apply(json.dumps({"kind": "Agent", "name": "tabular", "type": "python", "code": code}))
    _, approval_id = parked(world, {"mode": "redact", "stages": ["outputs"]}, "tabular")
    shown = files(desk.look(approval_id))["count/t.parquet"].table
    assert [list(row.cells) for row in shown.rows] == [[SWEPT, "1"]]


def test_calls_of_a_model_for_a_review_count_towards_the_runs(
    world: RuntimeWorld, listening: OpenAIServer, tmp_path: Path
) -> None:
    listening.will(Reply(calls=(ToolCall("final_result", {"mentions": []}),)))
    policy = {"mode": "redact", "stages": ["outputs"], "model": "openai-chat:any", "max_model_calls": 2}
    run_id, approval_id = parked(world, policy)
    models = Models(Secrets(), {"openai-chat": ModelProvider(base_url=listening.base_url)})
    redactor = ConfinedRedactor(models, scratch=tmp_path / "scratch", limits=RedactionLimits(processes=1))
    desk = Desk(world, tmp_path / "desk", redactor)
    try:
        assert MAIL not in str(desk.look(approval_id))
    finally:
        desk.close()
        redactor.close()
    counts = json.loads(world.row(run_id).pii_redaction or "{}")["counts"]
    assert (counts["model_calls"], counts["values"]) == (2, 0)
    assert len(listening.requests) == 2


def test_who_asks_beside_those_that_wait_is_told_at_once_to_ask_again(
    world: RuntimeWorld, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, approval_id = parked(world)
    going_on = threading.Event()
    made = material.make_material

    def slow(*given: Any) -> reviews_pb2.ReviewMaterial:
        going_on.wait(LONGEST_WAIT_SECONDS)
        return made(*given)

    monkeypatch.setattr(servicer, "make_material", slow)
    monkeypatch.setattr(preparations, "WAIT_SECONDS", LONGEST_WAIT_SECONDS)
    with ThreadPoolExecutor(3) as threads:
        asking = [threads.submit(desk.reviews.review, approval_id, OPERATOR) for _ in range(3)]
        [told] = until(lambda: [each for each in asking if each.done()], "one that is told")
        assert told.result().preparing
        going_on.set()
        assert all(each.result().HasField("material") for each in asking if each is not told)
    assert desk.look(approval_id).HasField("material")


def test_decisions_are_listed_with_who_made_them(world: RuntimeWorld, desk: Desk) -> None:
    run_id, approval_id = parked(world)
    assert desk.decisions(run_id) == []
    world.decide(approval_id, approve=True)
    (decision,) = desk.decisions(run_id)
    assert (decision.step, decision.decided_by) == ("review", "tester")
    assert desk.look(approval_id).decided_by == "tester"
    world.until_ended(run_id)
    with pytest.raises(RefusedError) as caught:
        desk.decisions("run_none")
    assert caught.value.reason == "run_not_found"


@pytest.mark.parametrize(("given", "reason"), [("apr_none", "not_found"), ("", "invalid_request")])
def test_an_unknown_approval_is_refused(desk: Desk, given: str, reason: str) -> None:
    with pytest.raises(RefusedError) as caught:
        desk.look(given)
    assert caught.value.reason == reason
