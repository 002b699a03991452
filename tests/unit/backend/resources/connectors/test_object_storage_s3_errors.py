import socket
import threading
from contextlib import closing

import boto3
import pytest
from botocore.config import Config

from backend.resources.connectors.object_storage import is_transient


def test_a_request_whose_answer_broke_off_within_its_head_may_succeed_later() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nLast-Modified: T")

        answering = threading.Thread(target=answer)
        answering.start()
        client = boto3.client(
            "s3",
            region_name="us-east-1",
            endpoint_url=f"http://127.0.0.1:{listener.getsockname()[1]}",
            aws_access_key_id="nobody",
            aws_secret_access_key="not-a-secret",
            config=Config(proxies={}, retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}),
        )
        with closing(client), pytest.raises(ValueError, match="Invalid timestamp") as broken:
            client.head_object(Bucket="bucket", Key="key")
        answering.join()
    assert is_transient(broken.value)
