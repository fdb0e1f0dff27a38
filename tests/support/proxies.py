"""A proxy that notes where it is asked to connect to: it goes there, or refuses."""

from __future__ import annotations

import select
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit


class Proxy(socketserver.ThreadingTCPServer):
    """`asked`: the hosts with ports, in order. `forward` False answers 503 to all: nothing leaves
    this machine."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, forward: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.asked: list[str] = []
        self.forward = forward

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def hosts(self) -> set[str]:
        return {asked.rpartition(":")[0] for asked in self.asked}


class _Connection(socketserver.BaseRequestHandler):
    server: Proxy

    def handle(self) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            received = self.request.recv(65_536)
            if not received:
                return
            head += received
        method, target, _ = head.split(b" ", 2)
        is_tunnel = method == b"CONNECT"
        place = target.decode() if is_tunnel else urlsplit(target.decode()).netloc
        self.server.asked.append(place)
        if not self.server.forward:
            self.request.sendall(b"HTTP/1.1 503 Not here\r\nContent-Length: 0\r\n\r\n")
            return
        host, _, port = place.rpartition(":")
        with socket.create_connection((host, int(port))) as upstream:
            if is_tunnel:
                self.request.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
            else:
                upstream.sendall(head)
            ends = [self.request, upstream]
            while True:
                for end in select.select(ends, [], [], 30)[0]:
                    data = end.recv(65_536)
                    if not data:
                        return
                    (upstream if end is self.request else self.request).sendall(data)


@contextmanager
def proxy(*, forward: bool) -> Iterator[Proxy]:
    server = Proxy(forward)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
