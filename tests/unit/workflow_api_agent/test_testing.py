"""`run_agent` runs an agent's function as a step would, without a service."""

from pathlib import Path
from typing import Any

import pytest

import workflow_api_agent.testing
from backend.common.json_text import parse_strict
from backend.isolation.sandbox.inside.channel import MAX_MESSAGE_CHARACTERS
from backend.isolation.sandbox.inside.plain_json import encode
from backend.settings import StepDataLimits
from workflow_api_agent import Context, Event, run_agent


def test_a_function_gets_its_item_as_in_a_fan_out() -> None:
    def run(context: Context) -> list[Any]:
        return [context.item, context.item_index, context.idempotency_key]

    assert run_agent(run, item={"page": (1, 2)}, item_index=3).value == [{"page": [1, 2]}, 3, "run_test/step/3"]
    assert run_agent(run).value == [None, None, "run_test/step"]


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_a_function_gets_what_a_step_was_started_with(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.bin").write_bytes(b"\xff")

    def run(context: Context) -> dict[str, Any]:
        return {
            "attempt": context.attempt,
            "parameters": context.parameters,
            "input_text": context.input_text,
            "needs": context.needs,
            "inputs": sorted(path.relative_to(context.inputs).as_posix() for path in context.inputs.rglob("*.*")),
            "files": {path.name: path.is_dir() for path in context.files.iterdir()},
            "here": Path.cwd() == context.workspace,
            "bucket": context.connector("inbox").bucket,
        }

    done = run_agent(
        run,
        parameters={"top": 3},
        input_text="text",
        needs={"count": {"words": (1, 2)}},
        inputs={"documents": {"sub/a.txt": "alpha", "b.txt": b"\x00"}, "folder": tmp_path},
        files={"draft": {"draft.md": "# Draft"}},
        connectors={"inbox": {"bucket": "company-inbox"}},
        attempt=2,
    )
    assert done.value == {
        "attempt": 2,
        "parameters": {"top": 3},
        "input_text": "text",
        "needs": {"count": {"words": [1, 2]}},
        "inputs": ["documents/b.txt", "documents/sub/a.txt", "folder/a/b.bin"],
        "files": {"count": True, "draft": True},
        "here": True,
        "bucket": "company-inbox",
    }


def test_what_it_leaves_and_reports_is_returned() -> None:
    async def run(context: Context) -> tuple[int, None]:
        (context.outputs / "sub").mkdir()
        (context.outputs / "sub" / "a.txt").write_text("alpha")
        (context.outputs / "link").symlink_to("/etc/passwd")
        context.progress("halfway", done=(1, 2))
        context.progress("large", text="x" * 70_000)
        return 1, None

    done = run_agent(run)
    assert done.value == [1, None]
    assert done.outputs == {"sub/a.txt": b"alpha"}
    assert done.events == [Event("halfway", {"done": [1, 2]})]
    assert done.dropped == 1


def test_exceptions_pass_through() -> None:
    def run(context: Context) -> None:
        raise LookupError(str(context.parameters["missing"]))

    with pytest.raises(KeyError, match="missing"):
        run_agent(run)


@pytest.mark.parametrize("value", [float("nan"), object(), {1, 2}, {1: 0, "1": 0}, nested(101), "x" * (8 * 2**20)])
def test_a_value_that_would_fail_the_step_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="the return value"):
        run_agent(lambda _: value)


@pytest.mark.parametrize("value", [None, 1, 1.5, "ü\n", [1, (2, 3)], {"a": {"b": [True]}}, {1: 2}, nested(100)])
def test_a_value_arrives_as_from_a_step(value: Any) -> None:
    assert run_agent(lambda _: value).value == parse_strict(encode(value))


@pytest.mark.parametrize("message", ["x" * 2_001, 7])
def test_a_message_that_would_fail_the_step_is_refused(message: Any) -> None:
    with pytest.raises(ValueError, match="at most 2000 characters"):
        run_agent(lambda context: context.progress(message))


@pytest.mark.parametrize("data", [object(), {None: 0, "null": 0}, nested(101)])
def test_data_that_would_fail_the_step_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match=r"a progress event|progress data"):
        run_agent(lambda context: context.progress("m", data=data))


def test_a_connector_that_is_not_declared_is_refused() -> None:
    with pytest.raises(LookupError, match=r"declares no connector 'outbox' \(declared: inbox\)"):
        run_agent(lambda context: context.connector("outbox"), connectors={"inbox": {}})


def test_a_secret_is_given_and_one_that_is_not_declared_is_refused() -> None:
    assert run_agent(lambda context: len(context.secret("api")), secrets={"api": "12345678"}).value == 8
    with pytest.raises(LookupError, match=r"declares no secret 'other' \(declared: api\)"):
        run_agent(lambda context: context.secret("other"), secrets={"api": "12345678"})


def test_files_stay_below_their_folder() -> None:
    with pytest.raises(ValueError, match="must be a path below its folder"):
        run_agent(lambda _: None, inputs={"documents": {"../a.txt": "alpha"}})


def test_its_bounds_are_the_defaults_of_a_deployment() -> None:
    limits = StepDataLimits()
    bounds = workflow_api_agent.testing
    assert limits.result_bytes == bounds.RESULT_BYTES
    assert limits.json_levels == bounds.JSON_LEVELS
    assert limits.event_bytes == bounds.EVENT_BYTES
    assert bounds.MESSAGE_CHARACTERS == MAX_MESSAGE_CHARACTERS


def test_shared_files_are_apart_from_outputs() -> None:
    def run(context: Context) -> None:
        (context.outputs / "a.txt").write_text("out")
        (context.shared / "sub").mkdir()
        (context.shared / "sub" / "b.txt").write_text("own")

    done = run_agent(run)
    assert (done.outputs, done.shared) == ({"a.txt": b"out"}, {"sub/b.txt": b"own"})


@pytest.mark.parametrize(("in_outputs", "in_shared"), [("a", "a"), ("a", "a/b"), ("a/b", "a")])
def test_a_name_in_outputs_and_in_shared_is_refused(in_outputs: str, in_shared: str) -> None:
    def run(context: Context) -> None:
        for path in (context.outputs / in_outputs, context.shared / in_shared):
            path.parent.mkdir(exist_ok=True)
            path.touch()

    with pytest.raises(ValueError, match=r"^'a' is in context\.outputs and in context\.shared"):
        run_agent(run)
