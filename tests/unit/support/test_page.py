"""Pages that people follow are run as they are written, and what they say is compared with what was printed."""

from pathlib import Path

import pytest

from tests.support.page import follow


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```bash\necho one two\n```\n```text\none … two\n```\n", None),
        ("```bash\nx=1\n```\n```bash\necho $x\n```\n```json\n1\n```\n", None),
        ('```python title="a/b.py"\nprint("here")\n```\n```bash\npython a/b.py\n```\n```text\nhere\n```\n', None),
        ("<!-- not run: it fails -->\n```bash\nfalse\n```\n", None),
        ("```bash\nsleep 9999 &\n```\n", None),
        ("Text\n\n```bash\necho no; false; true\n```\n", "page.md:3 ended with 1:\nno\n"),
        ("```bash\necho one\n```\n```text\ntwo\n```\n", "page.md:4 says\ntwo\nbut this was printed:\none\n"),
    ],
)
def test_a_page_is_followed_as_it_is_written(tmp_path: Path, text: str, problem: str | None) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    variables = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
    if problem is None:
        follow(page, tmp_path, variables, {}, before='python() { python3 "$@"; }')
        return
    with pytest.raises(AssertionError) as raised:
        follow(page, tmp_path, variables, {}, before="")
    assert str(raised.value) == problem
