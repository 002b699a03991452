import re
import subprocess
from pathlib import Path

import pytest
import yaml

from deploy.demo import MANIFESTS, Script, examples_folder, kept_credentials
from workflow_api.v1 import keys_pb2

WORKFLOWS = {"Text digest": "wf_1", "Invoice totals": "wf_2", "Reviewed report": "wf_3"}
CREDENTIALS = keys_pb2.KeyCredentials(key_value="ak_1.secret", external_id="ake_1")


def script(credentials: keys_pb2.KeyCredentials | None) -> list[str]:
    return Script("http://127.0.0.1:1/api/v1", "127.0.0.1:2", examples_folder(), WORKFLOWS, credentials).lines()


def test_every_manifest_is_applied() -> None:
    assert {path.name for path in examples_folder().glob("*.yaml")} == set(MANIFESTS)


def test_the_script_calls_every_example_workflow() -> None:
    documents = [
        document for name in MANIFESTS for document in yaml.safe_load_all((examples_folder() / name).read_text("utf-8"))
    ]
    names = {document["name"] for document in documents if document["kind"] == "Workflow"}
    assert names == set(WORKFLOWS)
    assert all(
        any(f"/workflows/{identifier}/runs" in line for line in script(None)) for identifier in WORKFLOWS.values()
    )


@pytest.mark.parametrize("credentials", [CREDENTIALS, None], ids=["first start", "later start"])
def test_the_script_is_valid_shell(credentials: keys_pb2.KeyCredentials | None) -> None:
    checked = subprocess.run(
        ["bash", "-n"], input="\n".join(script(credentials)), text=True, capture_output=True, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_every_line_has_a_documented_form() -> None:
    lines = script(CREDENTIALS)
    kinds = re.compile(r"$|# |export [A-Z_]+=|curl |[A-Z]+=\$\(curl |until curl |\S*workflow-api ")
    assert [line for line in lines if not kinds.match(line)] == []


def test_every_curl_fails_on_an_http_error() -> None:
    calls = [call for line in script(CREDENTIALS) for call in re.findall(r"\bcurl [^|]*", line)]
    assert len(calls) > 10
    assert all(call.startswith("curl -sS --fail-with-body ") for call in calls)


def test_a_wait_for_a_run_ends_and_fails() -> None:
    waits = [line for line in script(CREDENTIALS) if line.startswith("until curl ")]
    assert len(waits) == 4
    commands = """
        sleep() { :; }
        curl() { echo '{"status":"running"}'; }
        RUN=run_1
    """
    tried = subprocess.run(
        ["bash", "-e"], input=f"{commands}\n{waits[0]}\necho on", text=True, capture_output=True, check=False
    )
    assert (tried.returncode, tried.stdout, tried.stderr) == (1, "", "run_1 takes too long\n")


def test_its_variables_are_those_that_clients_and_pages_read() -> None:
    exports = [line for line in script(CREDENTIALS) if line.startswith("export ")]
    assert exports == [
        "export WORKFLOW_API_URL=http://127.0.0.1:1",
        "export WORKFLOW_API_KEY=ak_1.secret",
        "export WORKFLOW_API_EXTERNAL_ID=ake_1",
    ]
    assert '"$WORKFLOW_API_URL/api/v1/me"' in "\n".join(script(CREDENTIALS))


@pytest.mark.parametrize(("key_ids", "kept"), [({"ak_1"}, CREDENTIALS), ({"ak_2"}, None)], ids=["in use", "revoked"])
def test_a_later_start_keeps_the_key_of_the_file_while_it_can_be_used(
    key_ids: set[str], kept: keys_pb2.KeyCredentials | None, tmp_path: Path
) -> None:
    file = tmp_path / "calls.sh"
    assert kept_credentials(file, key_ids) is None
    file.write_text("\n".join(script(CREDENTIALS)))
    assert kept_credentials(file, key_ids) == kept


def test_without_a_key_that_is_known_the_script_makes_another() -> None:
    lines = script(None)
    assert not any(line.startswith("export WORKFLOW_API_KEY=") for line in lines)
    assert any(line.startswith("export $(") and " keys create " in line for line in lines)


def test_a_command_is_found_from_any_shell_and_reaches_this_demonstration() -> None:
    made = Script("http://127.0.0.1:1/api/v1", "127.0.0.1:2", examples_folder(), WORKFLOWS, None)
    program, _, rest = made.command("users list").partition(" ")
    assert (program, rest) == (made.first_line().split()[0], "users list --grpc 127.0.0.1:2")


def test_the_files_it_reads_exist() -> None:
    paths = re.findall(r'open\("([^"]+)"', "\n".join(script(None)))
    assert len(paths) == 3
    assert all(Path(path).is_file() for path in paths)


def test_a_wait_for_a_person_is_not_held_until_they_decide() -> None:
    """A run that already waits changes only when somebody decides. (contract 14.16)"""
    waits = [line for line in script(CREDENTIALS) if line.startswith("until curl ")]
    assert [("waiting_for_approval" in line, "wait_seconds" in line) for line in waits] == [
        (False, True),
        (False, True),
        (True, False),
        (False, True),
    ]
