"""A real S3, IAM and STS server on loopback, with accounts that it holds to their policies."""

import json
import os
import subprocess
import sys
import urllib.request
from typing import Any

import boto3
from botocore.config import Config

from tests.support.planted import plant

_SERVE = """
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
server._thread.join()
"""
ACCOUNT = "123456789012"


class S3Server:
    """S3 server that allows everything until `enforce`."""

    def __init__(self) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "MOTO_"))}
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", _SERVE],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        self.s3 = self.client("s3")
        self._iam = self.client("iam")

    def client(self, service: Any, key: tuple[str, str] = ("root", "not-a-secret")) -> Any:
        """A client with this access key."""
        config = Config(proxies={}, s3={"addressing_style": "path"}, retries={"total_max_attempts": 1})
        return boto3.session.Session().client(
            service,
            region_name="us-east-1",
            endpoint_url=self.url,
            aws_access_key_id=key[0],
            aws_secret_access_key=key[1],
            config=config,
        )

    def fill(self, bucket: str, objects: dict[str, bytes]) -> None:
        """Creates a bucket with these objects."""
        self.s3.create_bucket(Bucket=bucket)
        for key, body in objects.items():
            self.s3.put_object(Bucket=bucket, Key=key, Body=body)

    def user(self, name: str, *actions: str) -> tuple[str, str]:
        """A user who may do this; gives the access key."""
        self._iam.create_user(UserName=name)
        self._iam.put_user_policy(UserName=name, PolicyName="may", PolicyDocument=_policy(actions))
        made = self._iam.create_access_key(UserName=name)["AccessKey"]
        plant(made["SecretAccessKey"])
        return made["AccessKeyId"], made["SecretAccessKey"]

    def forbid(self, name: str) -> None:
        """Removes a user's policy."""
        self.enforce(enforced=False)
        self._iam.delete_user_policy(UserName=name, PolicyName="may")
        self.enforce()

    def role(self, name: str, trusted: str, *actions: str) -> str:
        """A role that a user may assume, and that may do this; gives its ARN."""
        trust = {
            "Version": "2012-10-17",
            "Statement": {
                "Effect": "Allow",
                "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:user/{trusted}"},
                "Action": "sts:AssumeRole",
            },
        }
        made = self._iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust))
        self._iam.put_role_policy(RoleName=name, PolicyName="may", PolicyDocument=_policy(actions))
        return str(made["Role"]["Arn"])

    def enforce(self, enforced: bool = True) -> None:
        """Switches the enforcement of policies."""
        self._post("reset-auth", b"0" if enforced else b"inf")

    def reset(self) -> None:
        """Removes all data and policies."""
        self.enforce(enforced=False)
        self._post("reset", b"")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=60)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _post(self, what: str, data: bytes) -> None:
        request = urllib.request.Request(
            f"{self.url}/moto-api/{what}", data=data, method="POST", headers={"Content-Type": "text/plain"}
        )
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request).close()


def _policy(actions: tuple[str, ...]) -> str:
    statement = {"Effect": "Allow", "Action": list(actions) or ["none:None"], "Resource": "*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})
