"""Links into a root, for layers that mount nothing."""

from pathlib import Path

from backend.isolation.sandbox import StepRoot
from backend.isolation.sandbox.host_libraries import host_libraries
from backend.isolation.sandbox.root_links import make_links, variables_of


def write(file: Path, *, mode: int = 0o644, text: str = "") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)


def made(root: Path) -> Path:
    links = root.with_name("links")
    links.mkdir()
    make_links(root, links, links)
    return links


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_programs_are_linked_with_links_followed_inside_the_root(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write(root / "usr" / "lib" / "real", mode=0o755)
    write(root / "usr" / "bin" / "no-program")
    (root / "usr" / "bin" / "tool").symlink_to("/usr/lib/real")
    (root / "usr" / "bin" / "out").symlink_to("/bin/sh")
    links = made(root)
    assert names(links / "programs") == ["tool"]
    assert (links / "programs" / "tool").readlink() == root / "usr" / "lib" / "real"


def test_libraries_of_the_loader_and_of_the_interpreter_are_the_machines(tmp_path: Path) -> None:
    root = tmp_path / "root"
    own = next(name for name in host_libraries().libraries if name.startswith("libssl"))
    for name in ("libc.so.6", "libm.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2", own, "libother.so.1", "x.txt"):
        write(root / "usr" / "lib" / "x86_64-linux-gnu" / name)
    assert names(made(root) / "libraries") == ["libother.so.1"]


def test_data_at_fixed_paths_is_named_by_variables(tmp_path: Path) -> None:
    root = tmp_path / "root"
    data = root / "usr" / "share" / "tesseract-ocr" / "5" / "tessdata"
    data.mkdir(parents=True)
    variables = variables_of(StepRoot(root, made(root), "", ""))
    assert variables["TESSDATA_PREFIX"] == str(data)
    assert "GS_LIB" not in variables


def test_rules_of_fonts_are_linked_unless_they_are_too_large(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write(root / "etc" / "fonts" / "conf.d" / "10-a.conf", text="<fontconfig/>")
    write(root / "etc" / "fonts" / "conf.d" / "20-b.conf", text=" " * 70_000)
    links = made(root)
    assert names(links / "fonts") == ["10-a.conf"]
    assert f"<dir>{root}/usr/share/fonts</dir>" in (links / "fonts.conf").read_text()
