"""A server on 127.0.0.1 that gives scripted answers, byte for byte, to real SDK clients."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from botocore.config import Config
from botocore.session import Session

from kinesis_source.aws.client import KinesisClient, StreamRef
from kinesis_source.aws.decode import install_decoders
from kinesis_source.testing.clock import ManualClock

DATE = "Thu, 01 Jan 2026 00:00:05 GMT"


@dataclass
class Answer:
    body: bytes = b"{}"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    content_length: int | None = None
    """Claimed length; more than the body has cuts it off."""
    reset: bool = False
    """Close the connection without a word."""


@dataclass
class Request:
    operation: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def params(self) -> Any:
        return json.loads(self.body)


class ScriptedServer:
    def __init__(self) -> None:
        self.answers: deque[Answer] = deque()
        self.requests: list[Request] = []
        script = self

        class Face(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                operation = headers.get("x-amz-target", "").rpartition(".")[2]
                script.requests.append(Request(operation, self.path, headers, body))
                answer = script.answers.popleft()
                if answer.reset:
                    self.close_connection = True
                    return
                self.send_response_only(answer.status)
                length = answer.content_length or len(answer.body)
                sent = {
                    "Date": DATE,
                    "Content-Type": "application/x-amz-json-1.1",
                    "Content-Length": str(length),
                    **answer.headers,
                }
                for name, value in sent.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.body)
                self.close_connection = length > len(answer.body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Face)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, body: object, status: int = 200, **rest: Any) -> None:
        """Queue an answer: bytes as they are, anything else as JSON."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.answers.append(Answer(raw, status, **rest))

    def fail(self, code: str, message: str = "no", status: int = 400) -> None:
        self.answer({"__type": code, "message": message}, status)

    def reset(self) -> None:
        self.answers.append(Answer(reset=True))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    server = ScriptedServer()
    yield server
    server.close()


@pytest.fixture(scope="session")
def sdk_session() -> Session:
    """Loading the service's model takes longer than the tests; a session caches it."""
    session = Session()
    session.set_credentials("AKIDEXAMPLE", "SECRETEXAMPLE", "TOKENEXAMPLE")
    return session


@pytest.fixture
def boto_client(server: ScriptedServer, sdk_session: Session) -> Iterator[Any]:
    client = sdk_session.create_client(
        "kinesis",
        region_name="eu-west-1",
        endpoint_url=server.url,
        config=Config(retries={"mode": "standard", "total_max_attempts": 1}, read_timeout=0.5),
    )
    install_decoders(client)
    yield client
    client.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def client(boto_client: Any, clock: ManualClock) -> KinesisClient:
    return KinesisClient(boto_client, StreamRef("orders"), clock, role="executor")
