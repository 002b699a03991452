"""What pip is configured with, uv installs from; what uv cannot install, pip does."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.install import ROOT, UV_REQUIREMENTS, pinned_uv_is_installed, read_settings, uv_variables
from tests.support.package_index import package_index
from tests.support.wheels import make_wheel

CONFIGURED = """\
:env:.cert='/etc/own.pem'
:env:.index-url='https://reader:secret@index.example/simple'
global.extra-index-url='https://one.example/simple\\nhttps://two.example/simple'
global.find-links='/wheels /more'
global.index-url='https://other.example/simple'
global.trusted-host='index.example'
global.keyring-provider='auto'
install.timeout='60'
list.format='json'
"""


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    (tmp_path / "wheels").mkdir()
    return make_wheel(tmp_path / "wheels", "pinned-part")


def installed(
    wheel: Path, folder: Path, index: str, *, digest: str | None = None, **variables: str
) -> tuple[bool, str]:
    """Installs the wheel from an index that only pip knows; returns whether it is there, and what was said."""
    digest = digest or hashlib.sha256(wheel.read_bytes()).hexdigest()
    requirements = folder / "pinned.txt"
    requirements.write_text(f"pinned-part==1.0 --hash=sha256:{digest}\n")
    (folder / "pip.conf").write_text(f"[global]\nindex-url = http://{index}/simple\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    own = {"PIP_CONFIG_FILE": str(folder / "pip.conf"), "UV_CACHE_DIR": str(folder / "uv"), "PIP_NO_CACHE_DIR": "1"}
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "install.py", "--into", folder / "environment", requirements],
        env={**kept, **own, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    imported = subprocess.run(
        [folder / "environment" / "bin" / "python", "-c", "import pinned_part"], capture_output=True, check=False
    )
    assert (done.returncode == 0) == (imported.returncode == 0)
    return done.returncode == 0, done.stdout + done.stderr


def test_the_settings_of_pip_have_their_counterparts() -> None:
    assert uv_variables(read_settings(CONFIGURED)) == {
        "SSL_CERT_FILE": "/etc/own.pem",
        "UV_DEFAULT_INDEX": "https://reader:secret@index.example/simple",
        "UV_FIND_LINKS": "/wheels,/more",
        "UV_HTTP_TIMEOUT": "60",
        "UV_INDEX": "https://one.example/simple https://two.example/simple",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_INSECURE_HOST": "index.example",
        "UV_SYSTEM_CERTS": "true",
    }


def test_uv_itself_is_pinned_as_the_service_has_it() -> None:
    assert pinned_uv_is_installed(UV_REQUIREMENTS.read_text())
    assert not pinned_uv_is_installed("uv==0.0.1 \\\n")


def test_uv_installs_from_the_index_that_pip_is_configured_with(wheel: Path, tmp_path: Path) -> None:
    with package_index(wheel.parent) as index:
        assert installed(wheel, tmp_path, index) == (True, "")


def test_what_uv_cannot_reach_is_installed_by_pip(wheel: Path, tmp_path: Path) -> None:
    with package_index(wheel.parent) as index:
        done, said = installed(
            wheel, tmp_path, index, UV_DEFAULT_INDEX="http://127.0.0.1:9/simple", UV_HTTP_RETRIES="0"
        )
    assert done
    assert "trying pip" in said


def test_a_wheel_with_another_hash_is_installed_by_neither(wheel: Path, tmp_path: Path) -> None:
    with package_index(wheel.parent) as index:
        done, said = installed(wheel, tmp_path, index, digest="0" * 64)
    assert not done
    assert "trying pip" in said
    assert "DO NOT MATCH" in said
