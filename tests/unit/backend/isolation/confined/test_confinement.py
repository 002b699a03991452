import json
import subprocess
import sys

import pytest

SCRIPT = """
import json, os, socket, sys
from backend.isolation.confined import restrictions
from backend.isolation.confined.confinement import confine, confinement
if {missing!r} == "landlock":
    restrictions.landlock_abi = lambda: 0
if {missing!r} == "namespaces":
    restrictions.new_namespaces = lambda: False
options = confinement(os.getppid())
if {missing!r} == "filter":
    options["filter"] = None
status = open("/proc/self/status")
layers = confine(options)
status.seek(0)
shown = dict(line.split(":\\t", 1) for line in status.read().splitlines())
def allowed(attempt):
    try:
        attempt()
    except OSError:
        return False
    return True
print(json.dumps({{
    "layers": layers,
    "capabilities": int(shown["CapEff"], 16) | int(shown["CapBnd"], 16),
    "new privileges": shown["NoNewPrivs"] == "0",
    "socket": allowed(lambda: socket.socket()),
    "connection": allowed(lambda: socket.create_connection(("127.0.0.1", {port}), 1)),
    "file": allowed(lambda: open({file!r})),
}}))
"""


@pytest.mark.parametrize("missing", ["nothing", "landlock", "namespaces", "filter"])
def test_where_one_layer_is_missing_the_others_hold(missing: str) -> None:
    script = SCRIPT.format(missing=missing, file=__file__, port=9)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env={})
    held = json.loads(done.stdout)
    assert (held["capabilities"], held["new privileges"], held["connection"]) == (0, False, False)
    assert held["socket"] == (missing == "filter")
    assert held["file"] == (held["layers"]["landlock"] == 0)
    assert held["layers"]["filter"] == (missing != "filter")
    assert not (missing == "namespaces" and held["layers"]["namespaces"])
