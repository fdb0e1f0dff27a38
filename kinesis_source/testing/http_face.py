"""The local stream over HTTP: AWS JSON 1.1 as boto3 and Spark's Python workers speak it.

Signatures are not verified, but a request without any is refused, and the key that it names is
looked at. Every answer carries the stream's own time in its Date header. One thread a connection;
connections stay open.
"""

from __future__ import annotations

import json
import socket
import socketserver
import sys
import threading
from binascii import a2b_base64, b2a_base64
from contextlib import suppress
from email.utils import formatdate
from http.client import responses
from itertools import count
from typing import Any

from kinesis_source.testing.service import Answer, Request, Service, TransportFault
from kinesis_source.testing.service_error import ServiceError
from kinesis_source.testing.stream import Record, RecordsPage

_TARGET = "Kinesis_20131202."
_JSON = "application/x-amz-json-1.1"


class HttpFace:
    """Serves one `Service` on one address from `start` to `stop`."""

    def __init__(self, service: Service, address: tuple[str, int]) -> None:
        self._server = _Server(address, service)
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.05},
            name="local-kinesis",
            daemon=True,
        )

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop listening and close every connection."""
        self._server.shutdown()
        self._server.server_close()
        self._server.close_connections()
        self._thread.join()


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, address: tuple[str, int], service: Service) -> None:
        super().__init__(address, _Connection)
        self.service = service
        self.request_ids = count(1)
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()

    def opened(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.add(connection)

    def closed(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.discard(connection)

    def close_connections(self) -> None:
        with self._lock:
            for connection in self._connections:
                with suppress(OSError):  # The client may have been faster.
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away in the middle is no news; anything else is."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Connection(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.opened(self.connection)

    def finish(self) -> None:
        self.server.closed(self.connection)
        super().finish()

    def handle(self) -> None:
        while self._serve_request():
            pass

    def _serve_request(self) -> bool:
        """One request and its answer; False when the connection is done."""
        request_line = self.rfile.readline(65_537).split()
        if len(request_line) != 3:
            return False
        headers: dict[str, str] = {}
        while (line := self.rfile.readline(65_537)) not in (b"\r\n", b"\n", b""):
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        if headers.get("expect", "").lower() == "100-continue":
            self.connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = self.rfile.read(int(headers.get("content-length", "0")))
        stays_open = headers.get("connection", "").lower() != "close"
        try:
            answer = self._answer(request_line[0], headers, body)
        except ServiceError as error:
            text = json.dumps({"__type": error.code, "message": error.message})
            self._send(error.status, text.encode())
        except TransportFault as fault:
            if fault.answer is None:
                return False
            text_bytes = _serialize(fault.answer)
            part = text_bytes[: len(text_bytes) // 2]
            consistent = fault.kind == "truncated_consistent"
            self._send(200, part, length=len(part if consistent else text_bytes))
            return consistent and stays_open
        else:
            self._send(200, _serialize(answer))
        return stays_open

    def _answer(self, method: bytes, headers: dict[str, str], body: bytes) -> Answer:
        target = headers.get("x-amz-target", "")
        if method != b"POST" or not target.startswith(_TARGET):
            raise ServiceError("UnknownOperationException", "", 404)
        if "authorization" not in headers:
            raise ServiceError(
                "MissingAuthenticationTokenException", "Missing Authentication Token"
            )
        credential = headers["authorization"].partition("Credential=")[2]
        key_id = credential.partition("/")[0]
        return self.server.service.call(target.removeprefix(_TARGET), _parse(body), key_id)

    def _send(self, status: int, body: bytes, *, length: int | None = None) -> None:
        now_ms = self.server.service.state.clock.now_ms()
        head = (
            f"HTTP/1.1 {status} {responses[status]}\r\n"
            f"x-amzn-RequestId: {next(self.server.request_ids):08x}-0000-4000-8000-000000000000\r\n"
            f"Date: {formatdate(now_ms // 1000, usegmt=True)}\r\n"
            f"Content-Type: {_JSON}\r\n"
            f"Content-Length: {len(body) if length is None else length}\r\n\r\n"
        ).encode("latin-1")
        self.connection.sendall(head + body if len(body) < 65_536 else head)
        if len(body) >= 65_536:
            self.connection.sendall(body)


def _parse(body: bytes) -> Request:
    """The request with `Data` as bytes."""
    try:
        request: Any = json.loads(body or b"{}")
        if not isinstance(request, dict):
            raise TypeError("not an object")
        request = {name: value for name, value in request.items() if value is not None}
        records = request.get("Records", [])
        for entry in [request, *records]:
            if "Data" in entry:
                entry["Data"] = a2b_base64(entry["Data"], strict_mode=True)
    except (ValueError, TypeError) as error:
        raise ServiceError("SerializationException", str(error)) from None
    return request  # type: ignore[no-any-return]


def _serialize(answer: Answer) -> bytes:
    page = answer.get("Records")
    if not isinstance(page, RecordsPage):
        return json.dumps(answer).encode()
    rest = {name: value for name, value in answer.items() if name != "Records"}
    return b'{"Records":[%b],%b' % (b",".join(_fragments(page)), json.dumps(rest).encode()[1:])


def _fragments(page: RecordsPage) -> list[bytes]:
    """The records as JSON. It is kept, so that reading a page again costs one join; two threads
    may make the same one."""
    shard, start, end = page
    fragments = shard.fragments[start:end]
    if b"" in fragments:
        for index in range(start, end):
            if not shard.fragments[index]:
                shard.fragments[index] = _record_json(shard.records[index])
        fragments = shard.fragments[start:end]
    return fragments


def _record_json(record: Record) -> bytes:
    key = record.partition_key
    return b'{"SequenceNumber":"%d","ApproximateArrivalTimestamp":%s,"Data":"%s"%s}' % (
        record.sequence_number,
        repr(record.arrival_ms / 1000).encode(),
        b2a_base64(record.data, newline=False),
        b"" if key is None else b',"PartitionKey":' + json.dumps(key).encode(),
    )
