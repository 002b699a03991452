"""The runs ticked in the list, cancelled, resumed or erased together."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from console.pages import run_changes
from console.run.changes import MOST_RUNS
from console.visit import ADMINISTRATORS, OPERATORS, Redirect, View
from contract.refusals import NoAnswer, Refusal
from tests.unit.console.run_answers import EVIL, summary
from tests.unit.console.seen import MemoryServices, answered, html, roles_of
from workflow_api.v1.runs_pb2 import (
    RUN_STATUS_CANCELLED,
    RUN_STATUS_COMPLETED,
    RUN_STATUS_FAILED,
    RUN_STATUS_RUNNING,
    CancelRunRequest,
    CancelRunResponse,
    EraseRunDataResponse,
    GetRunRequest,
    ResumeRunResponse,
    Run,
    RunSummary,
)

GET, CANCEL, RESUME, ERASE = (f"RunsService/{name}" for name in ("GetRun", "CancelRun", "ResumeRun", "EraseRunData"))
ENDED = CancelRunResponse(status=RUN_STATUS_CANCELLED)


def knowing(*runs: Run, **answers: Any) -> MemoryServices:
    """Services that know these runs; `answers` adds answers of RunsService."""
    by_id = {run.summary.run_id: run for run in runs}

    def get(request: GetRunRequest) -> Run:
        if request.run_id not in by_id:
            raise Refusal("run_not_found")
        return by_id[request.run_id]

    return MemoryServices({GET: get, **{f"RunsService/{name}": answer for name, answer in answers.items()}})


def run(run_id: str, status: int = RUN_STATUS_RUNNING, **fields: Any) -> Run:
    return Run(summary=summary(run_id=run_id, status=status), **fields)


def asked(backend: MemoryServices, verb: str, run_ids: Sequence[str], **query: str) -> Any:
    return answered(backend, "GET", f"/runs/{verb}", query=query, queries={"run_id": run_ids})


def sent(backend: MemoryServices, verb: str, run_ids: Sequence[str], **form: str | Sequence[str]) -> Any:
    return answered(backend, "POST", f"/runs/{verb}", form={"run_id": run_ids, "once": "form-1", **form})


def refusing(run_id: str, refusal: Refusal, answer: Any) -> Any:
    """An answer that refuses one run."""

    def answering(request: Any) -> Any:
        if request.run_id == run_id:
            raise refusal
        return answer

    return answering


def test_who_may_change_one_run_may_change_many() -> None:
    for verb, roles in (("cancel", OPERATORS), ("resume", OPERATORS), ("erase", ADMINISTRATORS)):
        assert roles_of("GET", f"/runs/{verb}") == roles_of("POST", f"/runs/{verb}") == roles


def test_the_question_counts_the_runs_and_says_why_others_are_left_out() -> None:
    backend = knowing(run("run_1"), run("run_2"), run("run_3", RUN_STATUS_COMPLETED))
    page = html(asked(backend, "cancel", ["run_1", "run_2", "run_3", "run_4", "run_1"]))
    assert "Cancel 2 runs?" in page
    assert "2 of 4 selected; 2 left out" in page
    assert page.count('name="run_id"') == 2
    assert "<td>It has ended already.</td>" in page
    assert f"<td>{Refusal('run_not_found').message}</td>" in page
    assert 'data-confirm="Cancel these runs? It cannot be undone."' in page
    assert not backend.asked(CANCEL)


def test_an_erased_and_a_resumed_run_are_left_out_of_resuming() -> None:
    erased = run("run_1", RUN_STATUS_FAILED, data_purged_at=Timestamp(seconds=1))
    taken_over = run("run_2", RUN_STATUS_FAILED, resumed_by="run_9")
    page = html(asked(knowing(erased, taken_over), "resume", ["run_1", "run_2"]))
    assert "None of the selected runs can be changed like this." in page
    assert "run_9 has taken over from it already." in page
    assert "<form" not in page.partition("<main")[2]


def test_the_question_leads_back_to_the_filtered_list_and_has_the_command_for_all_that_match() -> None:
    backend = knowing(run("run_1"))
    page = html(asked(backend, "cancel", ["run_1"], filters="status=running&workflow_id=wf_1&other=1"))
    assert 'href="/runs?status=running&amp;workflow_id=wf_1"' in page
    assert "workflow-api runs cancel --workflow wf_1 --status running --dry-run" in page
    assert "--dry-run" not in html(asked(backend, "cancel", ["run_1"], filters="q=order+7"))
    wrong = html(asked(backend, "cancel", ["run_1"], filters="&".join("status=x" for _ in range(1_000))))
    assert 'href="/runs"' in wrong


@pytest.mark.parametrize("count", [0, MOST_RUNS + 1])
def test_no_run_and_too_many_change_nothing(count: int) -> None:
    backend = knowing()
    run_ids = [f"run_{number}" for number in range(count)]
    for answer in (asked(backend, "erase", run_ids), sent(backend, "erase", run_ids)):
        assert isinstance(answer, Redirect)
        assert (answer.to, answer.notice.startswith("Nothing was changed: ")) == ("/runs", True)
    assert backend.calls == []


def test_each_run_has_its_outcome_and_a_refused_one_keeps_no_other_back() -> None:
    refused = refusing("run_2", Refusal("too_many_active_runs", "All slots are taken."), None)

    def resume(request: Any) -> ResumeRunResponse:
        refused(request)
        return ResumeRunResponse(run=Run(summary=RunSummary(run_id=request.run_id.replace("run", "new"))))

    backend = knowing(ResumeRun=resume)
    answer = sent(backend, "resume", ["run_1", "run_2", "run_3"])
    page = html(answer)
    assert "2 resumed, 0 skipped, 1 refused." in page
    assert 'href="/runs/new_1"' in page
    assert 'href="/runs/new_3"' in page
    assert "<td>All slots are taken.</td>" in page
    assert "data-go-on" not in page
    keys = {request.idempotency_key for request in backend.asked(RESUME)}
    assert len(keys) == 3
    sent(backend, "resume", ["run_1", "run_2", "run_3"])
    assert {request.idempotency_key for request in backend.asked(RESUME)} == keys


def test_a_run_that_was_erased_or_has_ended_meanwhile_is_skipped() -> None:
    backend = knowing(EraseRunData=refusing("run_1", Refusal("already_purged"), EraseRunDataResponse()))
    assert "1 erased, 1 skipped, 0 refused." in html(sent(backend, "erase", ["run_1", "run_2"], reason=" old "))
    assert {request.reason for request in backend.asked(ERASE)} == {"old"}
    backend = knowing(CancelRun=refusing("run_1", Refusal("already_terminal"), ENDED))
    assert "1 cancelled or ending, 1 skipped, 0 refused." in html(sent(backend, "cancel", ["run_1", "run_2"]))


def test_a_form_without_its_name_or_with_a_long_reason_asks_again() -> None:
    backend = knowing(run("run_1"))
    assert "Cancel 1 run?" in html(sent(backend, "cancel", ["run_1"], once=""))
    answer = sent(backend, "cancel", ["run_1"], reason="r" * 501)
    assert (answer.status, "has at most 500 characters; nothing was changed" in html(answer)) == (400, True)
    assert not backend.asked(CANCEL)


def test_what_is_not_begun_in_time_is_left_for_a_form_that_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_changes, "BEGIN_SECONDS", 0)
    backend = knowing(CancelRun=ENDED)
    page = html(sent(backend, "cancel", ["run_1", "run_2"], reason="late", outcome=["run_0\tdone\t\tcancelled", "x"]))
    assert "1 cancelled or ending, 0 skipped, 0 refused, 2 not tried yet." in page
    assert "data-go-on" in page
    for field in (
        '"once" value="form-1"',
        '"reason" value="late"',
        '"run_id" value="run_2"',
        '"outcome" value="run_0\t',
    ):
        assert f"name={field}" in page
    monkeypatch.undo()
    page = html(sent(backend, "cancel", ["run_1", "run_2"], reason="late", outcome=["run_0\tdone\t\tcancelled"]))
    assert "3 cancelled or ending, 0 skipped, 0 refused." in page
    assert backend.asked(CANCEL) == [CancelRunRequest(run_id=f"run_{each}", reason="late") for each in (1, 2)]


def test_without_the_backend_nothing_more_is_begun_and_nothing_goes_on_by_itself() -> None:
    run_ids = [f"run_{number}" for number in range(30)]
    backend = knowing(CancelRun=refusing("run_3", NoAnswer(), ENDED))
    page = html(sent(backend, "cancel", run_ids))
    tried = len(backend.asked(CANCEL))
    assert tried < len(run_ids)
    assert f"{tried - 1} cancelled or ending, 0 skipped, 0 refused, {30 - tried + 1} not tried yet." in page
    assert "The service did not answer." in page
    assert "data-go-on" not in page


def test_few_runs_are_changed_at_a_time() -> None:
    class Slow(MemoryServices):
        at_once = most = 0

        async def call(self, rpc: str, request: Any) -> Any:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
            await asyncio.sleep(0)
            self.at_once -= 1
            return await super().call(rpc, request)

    backend = Slow({CANCEL: ENDED})
    html(sent(backend, "cancel", [f"run_{number}" for number in range(MOST_RUNS)]))
    assert len(backend.asked(CANCEL)) == MOST_RUNS
    assert 1 < backend.most <= 8


def test_values_are_never_markup() -> None:
    wild = Run(summary=summary(run_id="run_1", workflow_name=EVIL, client_reference=EVIL))
    assert EVIL not in html(asked(knowing(wild), "cancel", ["run_1"], filters=EVIL))
    answer = sent(knowing(CancelRun=ENDED), "cancel", [EVIL], reason=EVIL, outcome=[f"{EVIL}\trefused\t{EVIL}\t{EVIL}"])
    assert isinstance(answer, View)
    assert EVIL not in html(answer)


def test_the_answer_is_given_again_to_the_same_form() -> None:
    answer = sent(knowing(CancelRun=ENDED), "cancel", ["run_1"])
    assert isinstance(answer, View)
    assert answer.changed
