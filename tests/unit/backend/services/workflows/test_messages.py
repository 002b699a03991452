import orjson
import pytest

from backend.common import json_text
from backend.services.workflows.messages import stored_policy_message
from backend.services.workflows.pii_policy import normalise
from contract.json_codec.response import ResponseCodec
from workflow_api.v1.pii_policy_pb2 import PiiPolicy

CODEC = ResponseCodec(PiiPolicy.DESCRIPTOR)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"mode": "redact", "categories": ["PERSON", "EMAIL_ADDRESS"], "stages": ["outputs"], "min_confidence": 1},
        {"mode": "detect", "categories": [], "stages": [], "model": "openai:gpt-5", "max_model_calls": 0},
        *({"min_confidence": steps / 20} for steps in range(10, 21)),
    ],
)
def test_a_stored_policy_is_shown_byte_for_byte(given: dict[str, object]) -> None:
    text = json_text.write(normalise(given))
    assert CODEC.encode(stored_policy_message(text)).decode() == text
    assert orjson.loads(text) == normalise(given)
