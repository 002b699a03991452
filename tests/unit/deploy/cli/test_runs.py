import hashlib
import json
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from backend.common.errors import ApiError
from deploy.cli.following import follower
from tests.unit.deploy.fake_backend import FakeBackend, command
from workflow_api.v1 import errors_pb2, outputs_pb2, run_lists_pb2, runs_pb2, workflows_pb2


def run_in(status: runs_pb2.RunStatus.ValueType) -> runs_pb2.Run:
    summary = runs_pb2.RunSummary(run_id="run_1", workflow_id="wf_1", workflow_name="Digest", status=status)
    return runs_pb2.Run(summary=summary)


def page(
    segment_id: str, seqs: list[int], segments: dict[str, int], *, last: int = 0
) -> runs_pb2.ListRunEventsResponse:
    return runs_pb2.ListRunEventsResponse(
        run_id="run_1",
        segment_id=segment_id,
        events=[runs_pb2.Event(seq=seq, type=f"{segment_id}.{seq}", data="{}") for seq in seqs],
        next_after_seq=last or max(seqs, default=0),
        segments=[
            runs_pb2.Segment(segment_id=name, ordinal=ordinal, last_seq=last_seq)
            for ordinal, (name, last_seq) in enumerate(segments.items(), 1)
        ],
    )


def test_list_sends_every_filter(backend: FakeBackend) -> None:
    summary = run_in(runs_pb2.RUN_STATUS_RUNNING).summary
    backend.answers["ListRuns"] = runs_pb2.ListRunsResponse(items=[summary], next_page_token="more")

    listed = command(
        *(
            "runs",
            "list",
            "--status",
            "running,failed",
            "--workflow",
            "wf_1",
            "--created-after",
            "2026-01-01T00:00:00Z",
        ),
        *("--created-before", "2027-01-01T00:00:00Z", "--client-reference", "r", "--limit", "1", "--cursor", "c"),
        *("--grpc", backend.address),
    )

    assert listed.out.splitlines()[-1] == "More with --cursor more"
    assert backend.request("ListRuns") == runs_pb2.ListRunsRequest(
        status=[runs_pb2.RUN_STATUS_RUNNING, runs_pb2.RUN_STATUS_FAILED],
        workflow_id="wf_1",
        created_after=Timestamp(seconds=1_767_225_600),
        created_before=Timestamp(seconds=1_798_761_600),
        client_reference="r",
        page_size=1,
        page_token="c",
    )


@pytest.mark.parametrize(
    ("option", "text", "reason"),
    [
        ("--status", "done", "must be a comma-separated list of queued, running"),
        ("--created-after", "yesterday", "must be an ISO 8601 date-time"),
    ],
)
def test_a_filter_that_cannot_be_read_is_refused(backend: FakeBackend, option: str, text: str, reason: str) -> None:
    refused = command("runs", "list", option, text, "--grpc", backend.address)
    assert refused.code == 2
    assert reason in " ".join(refused.err.replace("│", " ").split())
    assert not backend.requests


def test_show_without_json_prints_the_steps(backend: FakeBackend) -> None:
    step = runs_pb2.Step(step="count", kind=runs_pb2.STEP_KIND_AGENT, status=runs_pb2.STEP_STATUS_COMPLETED)
    backend.answers["GetRun"] = run_in(runs_pb2.RUN_STATUS_COMPLETED)
    backend.answers["ListRunSteps"] = runs_pb2.ListRunStepsResponse(items=[step])

    shown = command("runs", "show", "run_1", "--grpc", backend.address)

    assert shown.out.splitlines()[-1].split()[:3] == ["count", "agent", "completed"]


def test_show_prints_the_parent_of_a_run_and_the_children_of_its_steps(backend: FakeBackend) -> None:
    step = runs_pb2.Step(step="pay", kind=runs_pb2.STEP_KIND_WORKFLOW, status=runs_pb2.STEP_STATUS_RUNNING)
    child = runs_pb2.RunSummary(run_id="run_2", workflow_name="Invoice", status=runs_pb2.RUN_STATUS_RUNNING)
    run = run_in(runs_pb2.RUN_STATUS_RUNNING)
    run.parent_run_id = "run_0"
    backend.answers["GetRun"] = run
    backend.answers["ListRunSteps"] = runs_pb2.ListRunStepsResponse(items=[step])
    backend.answers["ListChildRuns"] = run_lists_pb2.ListChildRunsResponse(
        items=[run_lists_pb2.ChildRun(run=child, step="pay", item_index=0)]
    )

    lines = [line.split() for line in command("runs", "show", "run_1", "--grpc", backend.address).out.splitlines()]

    assert ["parent_run_id", "run_0"] in lines
    assert lines[-1][:5] == ["pay", "0", "run_2", "Invoice", "running"]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"started_by": "ana"}, "started_by ana"),
        ({"started_by": "nightly", "key_id": "ak_1"}, "started_by nightly (ak_1)"),
        ({"key_id": "ak_1"}, "started_by deleted (ak_1)"),
    ],
)
def test_show_names_the_person_or_the_key_that_started_the_run(
    backend: FakeBackend, given: dict[str, str], line: str
) -> None:
    run = run_in(runs_pb2.RUN_STATUS_COMPLETED)
    for name, value in given.items():
        setattr(run, name, value)
    backend.answers["GetRun"] = run
    backend.answers["ListRunSteps"] = runs_pb2.ListRunStepsResponse()
    shown = command("runs", "show", "run_1", "--grpc", backend.address)
    assert line in [" ".join(each.split()) for each in shown.out.splitlines()]


def test_show_of_an_erased_run_asks_for_no_steps(backend: FakeBackend) -> None:
    erased = run_in(runs_pb2.RUN_STATUS_COMPLETED)
    erased.data_purged_at.FromJsonString("2026-10-01T00:00:00Z")
    backend.answers["GetRun"] = erased

    assert command("runs", "show", "run_1", "--grpc", backend.address).code == 0


def test_events_are_those_of_one_segment(backend: FakeBackend) -> None:
    backend.answers["ListRunEvents"] = page("seg_2", [3, 4], {"seg_1": 2, "seg_2": 4})

    shown = command("runs", "events", "run_1", "--segment", "seg_2", "--after-seq", "2", "--grpc", backend.address)

    assert backend.request("ListRunEvents") == runs_pb2.ListRunEventsRequest(
        run_id="run_1", segment="seg_2", after_seq=2
    )
    assert [line.split()[:2] for line in shown.out.splitlines()] == [["3", "seg_2.3"], ["4", "seg_2.4"]]


def test_follow_reads_every_segment_until_the_run_is_terminal(
    backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "FOLLOW_SECONDS", 0.001)
    backend.answers["ListRunEvents"] = [
        page("", [], {}),
        page("seg_1", [1], {"seg_1": 2}),
        page("seg_1", [1], {"seg_1": 2}),
        page("seg_1", [2], {"seg_1": 2}),
        page("seg_2", [1], {"seg_1": 2, "seg_2": 1}),
        page("seg_2", [1], {"seg_1": 2, "seg_2": 1}),
    ]
    backend.answers["GetRun"] = [
        run_in(runs_pb2.RUN_STATUS_QUEUED),
        run_in(runs_pb2.RUN_STATUS_WAITING_FOR_APPROVAL),
        run_in(runs_pb2.RUN_STATUS_COMPLETED),
    ]
    backend.answers["ListRunEvents"].append(page("seg_2", [1], {"seg_1": 2, "seg_2": 2}))
    backend.answers["ListRunEvents"].append(page("seg_2", [2], {"seg_1": 2, "seg_2": 2}))

    followed = command("runs", "events", "run_1", "--follow", "--grpc", backend.address, "--json")

    events = [json.loads(line) for line in followed.out.splitlines()]
    assert [(event["segment_id"], event["seq"]) for event in events] == [
        ("seg_1", 1),
        ("seg_1", 2),
        ("seg_2", 1),
        ("seg_2", 2),
    ]
    assert backend.answers["ListRunEvents"] == []


def event(segment: str, seq: int) -> runs_pb2.WatchRunEventsResponse:
    return runs_pb2.WatchRunEventsResponse(segment_id=segment, event=runs_pb2.Event(seq=seq, type="run.started"))


def test_follow_is_a_stream_and_reads_on_where_it_breaks(backend: FakeBackend) -> None:
    stopped = ApiError(errors_pb2.ERROR_REASON_RUNTIME_UNREACHABLE)
    backend.answers["WatchRunEvents"] = [event("seg_1", 1), event("seg_1", 2), event("seg_2", 1), stopped]
    backend.answers["ListRunEvents"] = [
        page("seg_2", [1], {"seg_1": 2, "seg_2": 2}),
        page("seg_2", [2], {"seg_1": 2, "seg_2": 2}),
        page("seg_2", [1], {"seg_1": 2, "seg_2": 2}),
    ]
    backend.answers["GetRun"] = run_in(runs_pb2.RUN_STATUS_COMPLETED)

    followed = command("runs", "events", "run_1", "--follow", "--grpc", backend.address, "--json")

    events = [json.loads(line) for line in followed.out.splitlines()]
    assert [(event["segment_id"], event["seq"]) for event in events] == [
        ("seg_1", 1),
        ("seg_1", 2),
        ("seg_2", 1),
        ("seg_2", 2),
    ]
    assert events[0].keys() == events[-1].keys()


def test_follow_takes_no_start_position() -> None:
    assert command("runs", "events", "run_1", "--follow", "--after-seq", "1").code == 2


DEEP = "[" * 2500 + "]" * 2500
HOSTILE_JSON = (
    DEEP,
    json.dumps({"a": 1})[:-1] + f',"b":{DEEP}}}',
    "1" + "0" * 5000,
    json.dumps("\x1b]0;owned\x07\x9b31m\x7f\u202e\u2028"),
    json.dumps("\x9b31m\x7f\u202e\u2028\U000e0001", ensure_ascii=False),
)


def is_harmless(text: str) -> bool:
    """Returns whether a terminal prints the text without interpreting it."""
    return all(char.isprintable() or char == "\n" for char in text)


@pytest.mark.parametrize("value", HOSTILE_JSON, ids=range(len(HOSTILE_JSON)))
def test_values_that_cannot_be_parsed_are_printed(backend: FakeBackend, value: str) -> None:
    run = run_in(runs_pb2.RUN_STATUS_COMPLETED)
    run.result = run.parameters = value
    backend.answers["GetRun"] = run
    backend.answers["ListRunSteps"] = runs_pb2.ListRunStepsResponse()
    backend.answers["ListRunEvents"] = runs_pb2.ListRunEventsResponse(
        run_id="run_1", events=[runs_pb2.Event(seq=1, type="step.progress", step="a\x1b[2J", data=value)]
    )
    for arguments in (("runs", "show", "run_1"), ("runs", "events", "run_1")):
        for form in ((), ("--json",)):
            shown = command(*arguments, "--grpc", backend.address, *form)
            assert (shown.code, shown.err) == (0, "")
            assert is_harmless(shown.out)
            if form and DEEP not in value and len(value) < 4000:
                record = json.loads(shown.out)
                found = record["result"] if "result" in record else record["events"][0]["data"]
                assert found == json.loads(value)
            elif form:
                assert value in shown.out


def test_integers_of_any_size_are_printed_exactly(backend: FakeBackend) -> None:
    run = run_in(runs_pb2.RUN_STATUS_COMPLETED)
    run.result = str(2**70)
    backend.answers["GetRun"] = run
    shown = command("runs", "show", "run_1", "--grpc", backend.address, "--json")
    assert json.loads(shown.out)["result"] == 2**70


def test_a_refusal_prints_no_escape_sequence(backend: FakeBackend) -> None:
    backend.answers["GetRun"] = ApiError(errors_pb2.ERROR_REASON_RUN_NOT_FOUND, message="no \x1b[31mrun\x9b")
    for form in ((), ("--json",)):
        shown = command("runs", "show", "run_1", "--grpc", backend.address, *form)
        assert shown.code == 1
        assert is_harmless(shown.err)


def test_an_interrupt_that_was_swallowed_ends_following_at_the_next_round() -> None:
    with follower.interruptible() as check:
        check()
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            check()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def definition(backend: FakeBackend) -> None:
    workflow = workflows_pb2.Workflow(workflow_id="wf_1", name="Digest")
    backend.answers["GetWorkflowDefinition"] = workflows_pb2.WorkflowDefinition(
        workflow=workflow, version=2, definition='{"parameters": [{"name": "top", "type": "integer"}]}'
    )


def test_start_sends_typed_parameters_as_a_person(backend: FakeBackend) -> None:
    definition(backend)
    backend.answers["StartRun"] = runs_pb2.StartRunResponse(run=run_in(runs_pb2.RUN_STATUS_QUEUED))

    started = command(
        *("runs", "start", "Digest", "--param", "top=3", "--input-text", "text", "--version", "2"),
        *("--client-reference", "mine", "--label", "a=b=c", "--grpc", backend.address),
    )

    assert (started.code, started.out) == (0, "run_1\n")
    request = backend.request("StartRun")
    assert len(request.idempotency_key) == 36
    request.ClearField("idempotency_key")
    assert request == runs_pb2.StartRunRequest(
        workflow_id="wf_1",
        parameters='{"top":3}',
        input_text="text",
        version=2,
        client_reference="mine",
        labels={"a": "b=c"},
        triggered_by=runs_pb2.TRIGGERED_BY_CONSOLE,
    )


def test_problems_of_a_start_are_named_as_its_options(backend: FakeBackend) -> None:
    definition(backend)
    refusal = ApiError(errors_pb2.ERROR_REASON_INVALID_REQUEST, problems=[("labels.a", "is long"), ("version", "is 0")])
    backend.answers["StartRun"] = refusal
    for form, names in (((), ["--label", "--version"]), (("--json",), ["labels.a", "version"])):
        refused = command("runs", "start", "Digest", "--grpc", backend.address, *form)
        assert refused.code == 1
        found = [line.partition(":")[0] for line in refused.err.splitlines()]
        assert names == ([problem["name"] for problem in refused.error["details"]] if form else found)


@pytest.mark.parametrize(
    ("status", "code"), [(runs_pb2.RUN_STATUS_COMPLETED, 0), (runs_pb2.RUN_STATUS_FAILED, 1)], ids=str
)
def test_start_with_wait_exits_by_the_end_of_the_run(
    backend: FakeBackend, status: runs_pb2.RunStatus.ValueType, code: int
) -> None:
    definition(backend)
    step = runs_pb2.Step(step="count", kind=runs_pb2.STEP_KIND_AGENT, status=runs_pb2.STEP_STATUS_COMPLETED)
    backend.answers["StartRun"] = runs_pb2.StartRunResponse(run=run_in(runs_pb2.RUN_STATUS_QUEUED))
    backend.answers["ListRunSteps"] = runs_pb2.ListRunStepsResponse(items=[step])
    backend.answers["ListRunEvents"] = page("seg_1", [], {})
    backend.answers["GetRun"] = run_in(status)
    backend.answers["ListOutputs"] = [
        ApiError(errors_pb2.ERROR_REASON_REDACTION_PENDING, metadata={"status": "completed"}),
        outputs_pb2.ListOutputsResponse(run_id="run_1"),
    ]

    waited = command("runs", "start", "Digest", "--wait", "--grpc", backend.address)

    assert waited.code == code
    assert waited.err.splitlines()[0] == "run_1"
    assert waited.err.splitlines()[-1].split() == ["count", "completed"]


def outputs(*paths: str, content: bytes = b"text") -> outputs_pb2.ListOutputsResponse:
    digest = hashlib.sha256(b"text").hexdigest()
    items = [outputs_pb2.Output(output_id=path, path=path, size_bytes=len(content), sha256=digest) for path in paths]
    return outputs_pb2.ListOutputsResponse(run_id="run_1", items=items, total_bytes=len(content) * len(paths))


def content_of(data: bytes) -> list[outputs_pb2.GetOutputContentResponse]:
    header = outputs_pb2.GetOutputContentResponse(header=outputs_pb2.DownloadHeader(size_bytes=len(data)))
    return [header, outputs_pb2.GetOutputContentResponse(data=data)]


def test_download_writes_each_output_below_its_step(backend: FakeBackend, tmp_path: Path) -> None:
    backend.answers["ListOutputs"] = outputs("count/a.txt")
    backend.answers["GetOutputContent"] = content_of(b"text")
    downloaded = command("runs", "download", "run_1", "--out", str(tmp_path), "--grpc", backend.address)
    assert downloaded.code == 0
    assert (tmp_path / "count" / "a.txt").read_bytes() == b"text"
    assert downloaded.out == f"{tmp_path}/count/a.txt\n"


@pytest.mark.parametrize("path", ["../a.txt", "/etc/a.txt", "count/../../a.txt"])
def test_no_output_is_written_outside_of_the_folder(backend: FakeBackend, tmp_path: Path, path: str) -> None:
    backend.answers["ListOutputs"] = outputs(path)
    refused = command("runs", "download", "run_1", "--out", str(tmp_path / "out"), "--grpc", backend.address)
    assert refused.code == 1
    assert list(tmp_path.iterdir()) == []


def test_a_download_that_was_changed_leaves_no_file(backend: FakeBackend, tmp_path: Path) -> None:
    backend.answers["ListOutputs"] = outputs("count/a.txt")
    backend.answers["GetOutputContent"] = content_of(b"next")
    broken = command("runs", "download", "run_1", "--out", str(tmp_path), "--grpc", backend.address)
    assert (broken.code, "changed on its way" in broken.err) == (1, True)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_cancel_and_erase_say_what_became_of_the_run(backend: FakeBackend) -> None:
    backend.answers["CancelRun"] = runs_pb2.CancelRunResponse(run_id="run_1", status=runs_pb2.RUN_STATUS_RUNNING)
    backend.answers["EraseRunData"] = runs_pb2.EraseRunDataResponse(run_id="run_1")
    cancelled = command("runs", "cancel", "run_1", "--reason", "late", "--grpc", backend.address)
    assert cancelled.out == "run_1 is running, and ends soon.\n"
    assert backend.request("CancelRun").reason == "late"
    erased = command("runs", "erase", "run_1", "--grpc", backend.address)
    assert erased.out == "The data of run_1 is erased.\n"


def resumed() -> runs_pb2.ResumeRunResponse:
    executed = [runs_pb2.ExecutedStep(step="last", why="Its agent has changed.")]
    return runs_pb2.ResumeRunResponse(
        run=run_in(runs_pb2.RUN_STATUS_QUEUED), reused=["roll"], executed=executed, version=2
    )


def test_resume_prints_the_new_run_and_why_steps_are_executed(backend: FakeBackend) -> None:
    backend.answers["ResumeRun"] = resumed()
    arguments = ("runs", "resume", "run_1", "--from", "last", "--version", "2", "--grpc", backend.address)
    done = command(*arguments)
    assert (done.code, done.out, done.err) == (0, "run_1\n", "last is executed: Its agent has changed.\n")
    request = backend.request("ResumeRun")
    assert (request.run_id, request.from_step, request.version, request.dry_run) == ("run_1", "last", 2, False)
    assert len(request.idempotency_key) == 36
    printed = json.loads(command(*arguments, "--json").out)
    executed = [{"step": "last", "why": "Its agent has changed."}]
    assert printed == {"run_id": "run_1", "reused": ["roll"], "executed": executed}


def test_a_dry_run_of_resume_lists_the_steps(backend: FakeBackend) -> None:
    answer = resumed()
    answer.ClearField("run")
    backend.answers["ResumeRun"] = answer
    done = command("runs", "resume", "run_1", "--dry-run", "--grpc", backend.address)
    assert [line.split() for line in done.out.splitlines()] == [
        ["STEP", "DONE", "WHY"],
        ["roll", "reused", "-"],
        ["last", "executed", "Its", "agent", "has", "changed."],
    ]
    assert not backend.request("ResumeRun").idempotency_key
    done = command("runs", "resume", "run_1", "--dry-run", "--json", "--grpc", backend.address)
    assert json.loads(done.out)["run_id"] is None


def test_resume_reads_parameters_by_their_declared_types(backend: FakeBackend) -> None:
    definition(backend)
    backend.answers |= {"ResumeRun": resumed(), "GetRun": run_in(runs_pb2.RUN_STATUS_FAILED)}
    command("runs", "resume", "run_1", "--param", "top=3", "--grpc", backend.address)
    assert json.loads(backend.request("ResumeRun").parameters) == {"top": 3}


def test_list_takes_a_workflow_by_name(backend: FakeBackend) -> None:
    definition(backend)
    backend.answers["ListRuns"] = runs_pb2.ListRunsResponse()
    listed = command("runs", "list", "--workflow", "Digest", "--grpc", backend.address)
    assert (listed.code, listed.out) == (0, "No run.\n")
    assert backend.request("ListRuns") == runs_pb2.ListRunsRequest(workflow_id="wf_1")
