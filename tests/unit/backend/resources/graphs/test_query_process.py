import subprocess
import sys
from pathlib import Path

from tests.support.poll import until


def test_the_process_that_evaluates_a_query_has_no_rights(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-m", "backend.resources.graphs.query_process", str(tmp_path), "1", "60", "1000"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env={}) as process:
        try:
            status = Path(f"/proc/{process.pid}/status")
            until(lambda: "Seccomp:\t2" in status.read_text(), "the filter of system calls")
            text = status.read_text()
            assert "NoNewPrivs:\t1" in text
            assert "CapEff:\t0000000000000000" in text
            assert "CapBnd:\t0000000000000000" in text
        finally:
            process.kill()
