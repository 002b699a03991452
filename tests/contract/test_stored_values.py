"""Values that a release without bounds has stored are answered and shown, however deep they are nested."""

import sqlite3
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.part import COMMAND
from tests.support.service import Service

DEEP = "[" * 2_500 + "]" * 2_500


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Service]:
    """A service on the embedded database, into whose file a test writes."""
    service = Service(tmp_path)
    service.start()
    yield service
    service.stop()


def test_a_deep_value_of_an_earlier_release_is_answered_and_shown(embedded: Service, tmp_path: Path) -> None:
    flows = embedded.admin.apply_test_workflows()
    caller = embedded.new_caller()
    run_id = caller.finished(flows["Echo"], input_text="x")["run_id"]
    # Only a service that does not run leaves its file to others.
    embedded.stop()
    (file,) = tmp_path.rglob("workflow-api.sqlite3")
    database = sqlite3.connect(file)
    with database:
        database.execute("UPDATE runs SET result = ?, parameters = ?", (DEEP, f'{{"a":{DEEP}}}'))
        database.execute("UPDATE events SET data = ? WHERE type = 'step.completed'", (f'{{"a\\u001b":{DEEP}}}',))
    database.close()
    embedded.start()
    caller = replace(caller, address=embedded.address)

    for path in ("", "/events", "/steps"):
        answer = caller.get(f"/runs/{run_id}{path}")
        assert answer.status == 200
        assert (DEEP.encode() in answer.body) == (path != "/steps")
    for verb in ("show", "events"):
        for form in ((), ("--json",)):
            shown = subprocess.run(
                [COMMAND, "runs", verb, run_id, *form],
                env={"WORKFLOW_API_GRPC": embedded.ready["grpc"]},
                capture_output=True,
                encoding="utf-8",
                check=False,
            )
            assert (shown.returncode, shown.stderr) == (0, "")
            assert DEEP in shown.stdout
            assert "\x1b" not in shown.stdout
