"""Fake service for tests of callers, whose runs follow scripts on a fake clock, so that no test waits.

api = FakeApi()
api.workflow("Contract digest", script=[progress("page 1"), complete({"pages": 1})])
run = api.client().runs.start("Contract digest").wait()
assert run.result == {"pages": 1}
"""

from workflow_api_client.testing.fake_api import FakeApi
from workflow_api_client.testing.fake_clock import FakeClock
from workflow_api_client.testing.fake_run import FakeRun
from workflow_api_client.testing.script import Moment, approval, complete, event, fail, progress
from workflow_api_client.testing.state import FakeRequest

__all__ = [
    "FakeApi",
    "FakeClock",
    "FakeRequest",
    "FakeRun",
    "Moment",
    "approval",
    "complete",
    "event",
    "fail",
    "progress",
]
