"""Uploads the files of a folder to a bucket of S3 or a compatible store; makes the bucket if it is missing.

    python examples/upload.py FOLDER s3://BUCKET/PREFIX/ [--endpoint-url URL]

Credentials are found as every AWS client finds them.
"""

import argparse
from pathlib import Path
from urllib.parse import urlsplit

import boto3
from botocore.exceptions import ClientError


def upload(folder: Path, uri: str, endpoint_url: str | None) -> int:
    """Uploads every file below the folder; returns their number."""
    place = urlsplit(uri)
    s3 = boto3.client("s3", endpoint_url=endpoint_url, region_name="us-east-1")
    try:
        s3.head_bucket(Bucket=place.netloc)
    except ClientError:
        s3.create_bucket(Bucket=place.netloc)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in files:
        key = place.path.lstrip("/") + path.relative_to(folder).as_posix()
        s3.upload_file(str(path), place.netloc, key)
    return len(files)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Uploads a folder to object storage.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("uri", metavar="s3://BUCKET/PREFIX/")
    parser.add_argument("--endpoint-url")
    given = parser.parse_args()
    print(upload(given.folder, given.uri, given.endpoint_url), "objects")
