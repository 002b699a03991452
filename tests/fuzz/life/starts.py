"""Starts of runs: valid ones, refused ones, and repeats under an idempotency key."""

import uuid
from collections.abc import Callable
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import MultipleResults, multiple, rule

from tests.fuzz.life import seeing
from tests.fuzz.life.administration import Administration, workflows
from tests.fuzz.life.model import ContractRefusal, Key, Run, Secret
from tests.fuzz.life.world import hold
from tests.support.client import Caller

_BODIES: Final[tuple[dict[str, Any], ...]] = (
    *({}, {"input_text": "one"}, {"input_text": "two"}, {"version": 1}, {"pii_policy_override": {"mode": "off"}}),
    {"input_text": "all", "client_reference": "order 7", "labels": {"team": "blue"}, "version": 1},
    *({"version": 99}, {"version": 2**70}, {"parameters": {"nobody_declared_this": 1}}),
    *({"pii_policy_override": 5}, {"pii_policy_override": {"min_confidence": 0.9}}),
)
_SOUND: Final = _BODIES[:6]
_NOT_VALID: Final = (b"[]", b'{"colour":1}', b'{"labels":{"":"x"}}', b'{"version":0}', b'{"client_reference":""}')
_NO_JSON: Final = (b"{", b'{"a":1,"a":2}', b"\xff", b" ")

hows = st.sampled_from((*["current"] * 9, "previous", "dead", "old external id"))
_keys = Administration.keys
_bindings = st.sampled_from(("k-1", "k-2"))


class Starts(Administration):
    """What callers start, with the credentials of a key or with what is left of older ones."""

    def __init__(self) -> None:
        super().__init__()
        self.owners: dict[str, Key] = {}

    def caller(self, key: Key, how: str) -> tuple[Caller, Callable[[str | None], None]]:
        """A caller, and what the model says of its admission to a scope."""
        old = how == "old external id" and key.old_external_id is not None
        secret: Secret = "current"
        if how in key.secrets:
            secret = how
        return self.world.caller(key, secret, old_external_id=old), lambda scope: key.admit(
            scope, secret, old_external_id=old
        )

    @rule(target=Administration.runs, key=_keys, workflow=workflows, body=st.sampled_from(_SOUND))
    def start(self, key: Key, workflow: str, body: dict[str, Any]) -> MultipleResults[Run]:
        return self._start(key, "current", workflow, body, uuid.uuid4().hex)

    @rule(target=Administration.runs, key=_keys, workflow=workflows, body=st.sampled_from(_SOUND), binding=_bindings)
    def start_once(self, key: Key, workflow: str, body: dict[str, Any], binding: str) -> MultipleResults[Run]:
        return self._start(key, "current", workflow, body, binding)

    @rule(
        target=Administration.runs,
        key=_keys,
        how=hows,
        workflow=workflows,
        body=st.sampled_from(_BODIES),
        binding=_bindings,
    )
    def try_to_start(
        self, key: Key, how: str, workflow: str, body: dict[str, Any], binding: str
    ) -> MultipleResults[Run]:
        return self._start(key, how, workflow, body, binding)

    def _start(self, key: Key, how: str, workflow: str, body: dict[str, Any], binding: str) -> MultipleResults[Run]:
        caller, admit = self.caller(key, how)
        chosen = self.workflows[workflow]
        replayed: list[Run | None] = []

        def judge() -> None:
            admit("runs:create")
            replayed.append(key.start(chosen, body, binding))

        answer = caller.start(self.world.ids[workflow], binding, **body)
        if not hold(answer, (200, 201), judge):
            return multiple()
        [before] = replayed
        run_id = answer.json()["run_id"]
        if before is not None:
            assert (answer.status, answer.headers["Idempotency-Replayed"]) == (200, "true"), answer
            assert run_id == before.run_id
            seeing.see_detail(before, answer)
            return multiple()
        assert (answer.status, answer.headers["Location"]) == (201, f"/api/v1/runs/{run_id}"), answer
        run = Run(run_id, chosen, body, chosen.reaches, chosen.approvals)
        run.error = "node_failed" if run.status == "failed" else None
        key.record(run, binding)
        self.owners[run_id] = key
        self.world.wait(run)
        return multiple(run)

    @rule(key=_keys, how=hows, workflow=workflows, body=st.sampled_from((*_NOT_VALID, *_NO_JSON)), binding=_bindings)
    def start_wrongly(self, key: Key, how: str, workflow: str, body: bytes, binding: str) -> None:
        """What is no JSON is refused before the key is looked at; what is not valid binds no idempotency key."""
        caller, admit = self.caller(key, how)

        def judge() -> None:
            if body not in _NO_JSON:
                admit("runs:create")
            raise ContractRefusal(400, "invalid_request", ...)

        path = f"/workflows/{self.world.ids[workflow]}/runs"
        hold(caller.call("POST", path, headers={"Idempotency-Key": binding}, body=body), (), judge)
