import pytest

from contract.fields import given_or_default
from workflow_api.v1 import keys_pb2, runs_pb2


def test_an_absent_number_is_what_its_proto_says() -> None:
    assert given_or_default(runs_pb2.ListRunsRequest(), "page_size") == 20
    assert given_or_default(runs_pb2.ListRunEventsRequest(), "page_size") == 200


def test_a_given_number_stands() -> None:
    assert given_or_default(runs_pb2.ListRunsRequest(page_size=0), "page_size") == 0


def test_a_field_without_a_default_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="states no default"):
        given_or_default(keys_pb2.UpdateKeyRequest(), "rate_limit_rpm")
