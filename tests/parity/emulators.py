"""The three streams that are compared: ours, npm kinesalite and npm kinesis-local."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from kinesis_source.clock import SystemClock
from kinesis_source.testing import LocalKinesis

OURS, KINESALITE, KINESIS_LOCAL = "ours", "kinesalite", "kinesis-local"
VERSIONS = {KINESALITE: "3.3.3", KINESIS_LOCAL: "0.6.2"}
CLOCK = SystemClock()
START_LIMIT_S = 30.0

#: kinesalite's command line cannot be told the address to listen on.
_START_KINESALITE = """
const options = {createStreamMs: 50, updateStreamMs: 50, deleteStreamMs: 50, shardLimit: 100};
require('kinesalite')(options).listen(Number(process.env.PORT), '127.0.0.1');
"""
#: kinesis-local listens on all addresses unless it is made not to.
_ONLY_LOOPBACK = """
const net = require('net'), listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (first, ...rest) {
  if (typeof first === 'object') return listen.call(this, {...first, host: '127.0.0.1'}, ...rest);
  const callback = rest.filter((value) => typeof value === 'function');
  return listen.call(this, first, '127.0.0.1', ...callback);
};
"""


@contextmanager
def ours() -> Iterator[Any]:
    with LocalKinesis(create_ms=50, reshard_ms=50, delete_ms=50) as kinesis:
        yield client(kinesis.endpoint_url)


@contextmanager
def kinesalite(modules: Path) -> Iterator[Any]:
    """`modules`: the folder `node_modules` with the package."""
    port = _free_port()
    with _node(["-e", _START_KINESALITE], modules, PORT=str(port)):
        yield _when_listening(port)


@contextmanager
def kinesis_local(modules: Path) -> Iterator[Any]:
    port, package = _free_port(), modules / "kinesis-local"
    preload = modules / "only-loopback.js"
    preload.write_text(_ONLY_LOOPBACK)
    settings = {
        "KINESIS_MOCK_PLAIN_PORT": str(port),
        "KINESIS_MOCK_TLS_PORT": str(_free_port()),
        "KINESIS_MOCK_CERT_PATH": str(package / "server.json"),
        "SHARD_LIMIT": "500",
        **{
            f"{name}_DURATION": "50ms"
            for name in (
                "CREATE_STREAM",
                "DELETE_STREAM",
                "SPLIT_SHARD",
                "MERGE_SHARDS",
                "UPDATE_SHARD_COUNT",
            )
        },
    }
    with _node(["-r", str(preload), str(package / "main.js")], modules, **settings):
        yield _when_listening(port)


def client(url: str) -> Any:
    """Without retries: the history sees each answer as it comes."""
    config = Config(retries={"total_max_attempts": 1}, read_timeout=15, connect_timeout=15)
    return boto3.client(
        "kinesis",
        region_name="us-east-1",
        endpoint_url=url,
        aws_access_key_id="AKIALOCALKINESIS",
        aws_secret_access_key="local-kinesis",
        config=config,
    )


@contextmanager
def _node(arguments: list[str], modules: Path, **settings: str) -> Iterator[None]:
    process = subprocess.Popen(
        ["node", *arguments],
        cwd=modules.parent,
        env=os.environ | settings,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _when_listening(port: int) -> Any:
    deadline = CLOCK.monotonic() + START_LIMIT_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return client(f"http://127.0.0.1:{port}")
        except OSError:
            assert CLOCK.monotonic() < deadline, f"nothing listens on port {port}"
            CLOCK.sleep(0.05)
