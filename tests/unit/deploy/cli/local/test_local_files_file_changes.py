from pathlib import Path

from deploy.cli.local.local_files import changed_files


def test_a_round_begins_at_once_and_after_each_change(tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    rounds = changed_files(lambda: [file], seconds=0.001)
    assert next(rounds) == {}
    for content in ("a", "ab"):
        file.write_text(content)
        (size,) = {size for _, size in next(rounds).values()}
        assert size == len(content)
    file.unlink()
    assert next(rounds) == {}
