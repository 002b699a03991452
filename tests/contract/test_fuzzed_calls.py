"""Generated calls of all 17 routes, with and without a key, against the service's own description."""

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.generation import GenerationMode

from tests.support.client import Caller
from tests.support.described import CHECKS, described
from tests.support.routes import ROUTES, Route
from tests.support.service import Service
from tests.support.wire import BASE

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def schema(service: Service) -> Any:
    return described(service.address)


@pytest.fixture(scope="module")
def fuzzer(service: Service) -> Caller:
    return service.new_caller(name="fuzzer")


# A route without parameters and body can be called in no wrong way.
GENERATED = [(route, mode) for route in ROUTES for mode in GenerationMode if mode.is_positive or route.takes_input]


@pytest.mark.parametrize("authenticated", [True, False], ids=["with a key", "without a key"])
@pytest.mark.parametrize(("route", "mode"), GENERATED, ids=str)
def test_generated_calls_are_answered_as_described(
    schema: Any, fuzzer: Caller, route: Route, authenticated: bool, mode: GenerationMode
) -> None:
    credentials = fuzzer.credentials if authenticated else {}

    @settings(
        max_examples=15 if authenticated else 5,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=schema[route.template][route.method].as_strategy(generation_mode=mode))
    def answered_as_described(case: Any) -> None:
        for name in ("Authorization", "X-Service-Key-External-Id"):
            case.headers.pop(name, None)
        host, port = fuzzer.address
        response = case.call(base_url=f"http://{host}:{port}{BASE}", headers=credentials)
        if authenticated:
            assert response.status_code != 401
        elif route.scope != "":
            assert response.status_code in {400, 401, 404, 405, 413}
        case.validate_response(response, checks=CHECKS)

    answered_as_described()
