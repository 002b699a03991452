import pytest

from backend.runtime.promotion import media_type


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("count/count.txt", "text/plain"),
        ("result.json", "application/json"),
        ("a/table.CSV", "text/csv"),
        ("a/b/chart.png", "image/png"),
        ("a/rows.parquet", "application/vnd.apache.parquet"),
        ("a/notes.md", "text/markdown"),
        ("a/graph.ttl", "text/turtle"),
        ("a/all.tar.gz", "application/gzip"),
        ("a/data:text,html.csv", "text/csv"),
        ("a/no-ending", "application/octet-stream"),
        ("a.txt/unknown.zzz", "application/octet-stream"),
    ],
)
def test_the_media_type_follows_the_name(path: str, expected: str) -> None:
    assert media_type(path) == expected
