"""Runs an agent's function in a unit test, without service and sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from workflow_api_agent.context import Context

    Folder = Mapping[str, str | bytes] | Path | str
    """Files by path with their content, or a folder of the machine whose files are copied."""

# Default bounds of a deployment.
RESULT_BYTES = 8 * 2**20
JSON_LEVELS = 100
EVENT_BYTES = 65_536
MESSAGE_CHARACTERS = 2_000

_FIELDS = ("name", "type", "bucket", "prefixes")


class Event(NamedTuple):
    """A progress event."""

    message: str
    data: dict[str, Any]


class AgentRun(NamedTuple):
    """Result of an agent's call: the value as the next step gets it, output files by path, and events.

    `dropped` is the number of events left out because they were too large. `shared` has the files by path that only
    later steps get.
    """

    value: Any
    outputs: dict[str, bytes]
    events: list[Event]
    dropped: int
    shared: dict[str, bytes]


def run_agent(
    function: Callable[[Context], Any],
    *,
    parameters: Mapping[str, Any] | None = None,
    input_text: str | None = None,
    needs: Mapping[str, Any] | None = None,
    inputs: Mapping[str, Folder] | None = None,
    files: Mapping[str, Folder] | None = None,
    connectors: Mapping[str, Mapping[str, Any]] | None = None,
    secrets: Mapping[str, str] | None = None,
    attempt: int = 1,
    run_id: str = "run_test",
    step: str = "step",
    client_reference: str | None = None,
    failure: Mapping[str, str | None] | None = None,
    item: Any = None,
    item_index: int | None = None,
    input: Mapping[str, Any] | None = None,  # noqa: A002 - the name in the context
) -> AgentRun:
    """Calls an agent's function, plain or async, with a context in temporary folders, and returns the result.

    The function runs in this process, with its workspace as the current folder, and with a deployment's default bounds
    of values and events. There is no sandbox: memory, time, network and files are the test's own.

    Args:
        function: The agent's function.
        parameters: The run's parameters.
        input_text: The run's input text.
        needs: Return values of the needed steps, by step.
        inputs: Files of `s3_prefix` parameters, by parameter.
        files: Outputs and shared files of the needed steps, by step.
        connectors: Connectors that the step declares, by name: `type`, `bucket` and `prefixes`.
        secrets: Values of the secrets that the agent declares, by name; they are not removed from the result.
        attempt: The number of the attempt.
        run_id: The run.
        step: The handle of the step.
        client_reference: The caller's own reference of the run.
        failure: Step, code and message of the failure of the run, for a step of `on_failure` or `always`.
        item: The item of the step's `for_each`.
        item_index: The place of the item in its list, from 0.
        input: The arguments of a model that calls the agent as a tool.

    Raises:
        ValueError: the return value is not JSON, too large or nested too deep, or a name is in both `context.outputs`
            and `context.shared`.
        Exception: any exception of the function.
    """
    import contextlib
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory(prefix="agent-") as name:
        root = Path(name).resolve()
        for folder in ("workspace", "outputs", "shared", "inputs", "files"):
            (root / folder).mkdir()
        for kind, given in (("inputs", inputs), ("files", files)):
            for key, content in (given or {}).items():
                _fill(root / kind / key, content)
        for need in needs or {}:
            (root / "files" / need).mkdir(exist_ok=True)
        context = _Context(root, parameters, input_text, needs, connectors, secrets, attempt)
        context.run_id, context.step, context.client_reference = run_id, step, client_reference
        context.failure = None if failure is None else dict(failure)
        context.item, context.item_index = _checked(item), item_index
        context.input = _checked(input)
        context.idempotency_key = f"{run_id}/{step}" + ("" if item_index is None else f"/{item_index}")
        with contextlib.chdir(root / "workspace"):
            value = _checked(_result_of(_call(function, context)))
        outputs, shared = _files_in(root / "outputs"), _files_in(root / "shared")
        for path in sorted(_names(outputs) & _names(shared)):
            if path in outputs or path in shared:
                raise ValueError(f"{path!r} is in context.outputs and in context.shared: a name may be in one of them")
        return AgentRun(value, outputs, context.events, context.dropped, shared)


class _Context:
    def __init__(
        self,
        root: Path,
        parameters: Mapping[str, Any] | None,
        input_text: str | None,
        needs: Mapping[str, Any] | None,
        connectors: Mapping[str, Mapping[str, Any]] | None,
        secrets: Mapping[str, str] | None,
        attempt: int,
    ) -> None:
        self.attempt = attempt
        self.run_id = self.step = self.idempotency_key = ""
        self.client_reference: str | None = None
        self.failure: dict[str, str | None] | None = None
        self.item: Any = None
        self.item_index: int | None = None
        self.input: dict[str, Any] | None = None
        self.parameters = dict(parameters or {})
        self.input_text = input_text
        self.traceparent: str | None = None
        self.needs = {step: _checked(value) for step, value in (needs or {}).items()}
        self.inputs = root / "inputs"
        self.files = root / "files"
        self.workspace = root / "workspace"
        self.outputs = root / "outputs"
        self.shared = root / "shared"
        self.events: list[Event] = []
        self.dropped = 0
        self._connectors = connectors or {}
        self._secrets = secrets or {}

    def progress(self, message: Any, **data: Any) -> None:
        import json

        if not isinstance(message, str) or len(message) > MESSAGE_CHARACTERS:
            raise ValueError(f"a progress message is a string of at most {MESSAGE_CHARACTERS} characters")
        try:
            text = json.dumps({"message": message, "data": data}, allow_nan=False, ensure_ascii=False)
            known = json.loads(text, object_pairs_hook=_members)["data"]
            size = len(json.dumps(known, ensure_ascii=False, separators=(",", ":")).encode())
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(f"progress data must be JSON: {error}") from error
        if _levels(known) > JSON_LEVELS:
            raise ValueError(f"a progress event is nested more than {JSON_LEVELS} levels deep")
        if size > EVENT_BYTES:
            self.dropped += 1
        else:
            self.events.append(Event(message, known))

    def connector(self, name: str) -> Any:
        import types

        if name not in self._connectors:
            declared = ", ".join(sorted(self._connectors)) or "none"
            raise LookupError(f"the step declares no connector {name!r} (declared: {declared})")
        given = {"type": "s3", "bucket": None, "prefixes": [], **self._connectors[name], "name": name}
        return types.SimpleNamespace(**{field: given[field] for field in _FIELDS})

    def secret(self, name: str) -> str:
        if name not in self._secrets:
            declared = ", ".join(sorted(self._secrets)) or "none"
            raise LookupError(f"the agent declares no secret {name!r} (declared: {declared})")
        return self._secrets[name]


def _fill(folder: Path, content: Folder) -> None:
    import shutil
    from pathlib import Path

    if isinstance(content, str | Path):
        shutil.copytree(content, folder)
        return
    folder.mkdir(parents=True)
    for name, given in content.items():
        path = folder / name
        if not path.resolve().is_relative_to(folder):
            raise ValueError(f"{name!r} must be a path below its folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(given.encode() if isinstance(given, str) else given)


def _files_in(folder: Path) -> dict[str, bytes]:
    """Returns the plain files below a folder by path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def _names(files: Mapping[str, bytes]) -> set[str]:
    """Returns the paths of files and of the folders that they are in."""
    from pathlib import PurePosixPath

    return {str(name) for path in files for name in (PurePosixPath(path), *PurePosixPath(path).parents)}


def _call(function: Callable[..., Any], context: Context) -> Any:
    """Calls a function as the sandbox does: with the input's values for parameters of their names."""
    code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
    if not context.input or code is None:
        return function(context)
    names = code.co_varnames[max(1, code.co_posonlyargcount) : code.co_argcount + code.co_kwonlyargcount]
    return function(context, **{name: context.input[name] for name in names if name in context.input})


def _result_of(value: Any) -> Any:
    if not hasattr(value, "__await__"):
        return value
    import asyncio

    async def finished() -> Any:
        return await value

    return asyncio.run(finished())


def _checked(value: Any) -> Any:
    """Returns a value as the next step gets it: tuples become lists, and keys become texts."""
    import json

    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        size = len(text.encode())
        known = json.loads(text, object_pairs_hook=_members)
    except RecursionError as error:
        raise ValueError(f"the return value is nested more than {JSON_LEVELS} levels deep") from error
    except (ValueError, TypeError) as error:
        raise ValueError(f"the return value is not JSON: {error}") from error
    if size > RESULT_BYTES:
        raise ValueError(f"the return value is larger than {RESULT_BYTES} bytes of JSON")
    if _levels(known) > JSON_LEVELS:
        raise ValueError(f"the return value is nested more than {JSON_LEVELS} levels deep")
    return known


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns a JSON object; raises ValueError for two keys with equal text, such as 1 and "1"."""
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"two keys of a mapping are both written as {name!r}")
        members[name] = value
    return members


def _levels(value: Any) -> int:
    """Returns the depth of nested lists and objects; 0 for a plain value."""
    deepest, left = 0, [(value, 0)]
    while left:
        one, above = left.pop()
        if isinstance(one, dict | list):
            deepest = max(deepest, above + 1)
            left += [(inner, above + 1) for inner in (one.values() if isinstance(one, dict) else one)]
    return deepest
