"""A deployment before its first key and after its last. (contract 5.2, 5.3)"""

from tests.support.admin import Credentials
from tests.support.client import Caller
from tests.support.expect import refused
from tests.support.poll import until
from tests.support.service import Service
from workflow_api.v1 import deployment_pb2, keys_pb2


def test_not_enabled_until_the_first_key_ever_and_401_after_the_last(own_service: Service) -> None:
    service, admin = own_service, own_service.admin
    assert service.call("GET", "/health").json()["status"] == "ok"
    answer = service.call("GET", "/me")
    refused(answer, 503, "deployment_updating", {"reason": "not_enabled"})
    assert answer.headers["Retry-After"] == "60"
    deployment = admin.deployment.GetDeployment(deployment_pb2.GetDeploymentRequest())
    assert (deployment.governed, deployment.api_enabled, deployment.licence.state) == (True, True, "active")

    made: Credentials = admin.create_key()
    caller: Caller = service.caller(made)
    assert caller.get("/me").status == 200

    admin.keys.RevokeKey(keys_pb2.RevokeKeyRequest(key_id=made.key_id))
    admin.keys.DeleteKey(keys_pb2.DeleteKeyRequest(key_id=made.key_id))
    until(lambda: caller.get("/me").status == 401, "the deletion")
    refused(service.call("GET", "/me"), 401, "unauthorized")
