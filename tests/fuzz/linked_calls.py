"""Walks along the description's links, from what one answer names to the next call, each held to the description.

The cases of an operation are generated before the walk: they do not hang on what the service answers, so that a seed
tells the whole walk.
"""

import random
from collections.abc import Mapping
from typing import Any, Final

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.generation import GenerationMode

from tests.support.client import Caller
from tests.support.described import CHECKS, described
from tests.support.service import Service
from tests.support.wire import BASE

_WORKFLOWS: Final = (
    *("Echo", "Failure", "Files", "Gate", "Optional failure", "Park", "Silence", "Tree", "Two gates", "Typed"),
    *("Drafted", "Unstaffed", "Wrong result", "From a bucket"),
)
# Where it leads from, its name, the operation it leads to, and the parameters that it gives.
_Way = tuple[str, str, str, Mapping[str, Any]]
_CASES: Final = {GenerationMode.POSITIVE: 6, GenerationMode.NEGATIVE: 3}
# What an answer named to this key is there for as long as the key is.
_NEVER_GONE: Final = ("run_not_found", "workflow_not_found")


class Walks:
    """Walks of one caller, whose key reaches workflows that never run for long."""

    def __init__(self, service: Service, seed: int) -> None:
        ids = service.admin.apply_test_workflows()
        self._caller = service.new_caller(name="linked calls", workflow_ids=[ids[name] for name in _WORKFLOWS])
        schema = described(service.address)
        self._operations = {
            found.definition.raw["operationId"]: found for found in map(_ok, schema.get_all_operations())
        }
        self._cases = {name: _generated(operation, seed) for name, operation in self._operations.items()}
        self.followed: set[tuple[str, str]] = set()
        """Links that were followed to a success, each as the operation that it led from and its name."""

    def walk(self, seed: int, steps: int) -> None:
        """So many calls; each begins anew or goes on from an answer of this walk."""
        choose = random.Random(seed)
        roots = [
            name
            for name, found in self._operations.items()
            if "{" not in found.path and "links" in str(found.definition.raw)
        ]
        ways: list[_Way] = []
        try:
            for _ in range(steps):
                # Nearer answers are likelier: they are those of runs that still go.
                way = ways[-1 - int(len(ways) * choose.random() ** 2)] if ways and choose.random() < 0.9 else None
                name = way[2] if way else choose.choice(roots)
                case, sound = self._case(choose, name, way[3] if way else {})
                answer = self._call(case, linked=way is not None and sound)
                if answer.status_code < 300:
                    ways += self._ways_from(name, case, answer)
                    if way:
                        self.followed.add((way[0], way[1]))
        finally:
            self._caller.cancel_active()

    def _case(self, choose: random.Random, name: str, parameters: Mapping[str, Any]) -> tuple[Any, bool]:
        """A generated case with the parameters of a link, and whether it is one that the description allows."""
        operation = self._operations[name]
        template, mode = choose.choice(self._cases[name])
        case = operation.Case(
            path_parameters=dict(template.path_parameters or {}),
            query=dict(template.query or {}),
            headers=dict(template.headers or {}),
            body=template.body,
            media_type=template.media_type,
        )
        if choose.random() < 0.6:
            # What random words ask for is seldom there.
            case.query = {}
            case.body = {} if operation.method == "post" else case.body
            if "Idempotency-Key" in case.headers:
                case.headers["Idempotency-Key"] = f"k-{choose.getrandbits(64)}"
        if "wait_seconds" in case.query:
            case.query["wait_seconds"] = 0
        for parameter, value in parameters.items():
            place = case.path_parameters if f"{{{parameter}}}" in operation.path else case.query
            place[parameter] = value
        for credential in self._caller.credentials:
            case.headers.pop(credential, None)
        return case, mode is GenerationMode.POSITIVE

    def _call(self, case: Any, *, linked: bool) -> Any:
        answer = case.call(base_url=_base(self._caller), headers=self._caller.credentials)
        assert answer.status_code != 401, case.as_curl_command()
        if linked and answer.status_code == 404:
            assert answer.json()["error"]["code"] not in _NEVER_GONE, (case.as_curl_command(), answer.json())
        case.validate_response(answer, checks=CHECKS)
        return answer

    def _ways_from(self, name: str, case: Any, answer: Any) -> list[_Way]:
        responses = self._operations[name].definition.raw["responses"]
        links = responses.get(str(answer.status_code), {}).get("links", {})
        found: list[_Way] = []
        for link_name, link in links.items():
            parameters = {key: _value(text, case, answer.json()) for key, text in link["parameters"].items()}
            if None not in parameters.values():
                found.append((name, link_name, link["operationId"], parameters))
        return found


def _generated(operation: Any, seed: int) -> list[tuple[Any, GenerationMode]]:
    """Cases that the description allows, and where there is a wrong way to call it, some that it does not."""
    modes = [
        mode for mode in _CASES if mode.is_positive or operation.path_parameters or operation.query or operation.body
    ]
    return [(case, mode) for mode in modes for case in _of_mode(operation, mode, seed)]


def _of_mode(operation: Any, mode: GenerationMode, seed: int) -> list[Any]:
    found: list[Any] = []

    @hypothesis.seed(seed)
    @settings(
        max_examples=_CASES[mode],
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def gather(case: Any) -> None:
        found.append(case)

    gather()
    return found


def _value(text: str, case: Any, body: Any) -> Any:
    """What a runtime expression of a link stands for; None where it is not there."""
    source, _, rest = text.partition("#/")
    if source != "$response.body":
        return case.path_parameters[text.removeprefix("$request.path.")]
    for part in rest.split("/"):
        if isinstance(body, list):
            body = body[int(part)] if int(part) < len(body) else None
        else:
            body = (body or {}).get(part)
    return body


def _ok(result: Any) -> Any:
    return result.ok()


def _base(caller: Caller) -> str:
    host, port = caller.address
    return f"http://{host}:{port}{BASE}"
