"""STS and the credentials endpoints of pods and machines on 127.0.0.1: sessions of any length."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl

from kinesis_source.clock import Clock, SystemClock

CONTAINER = "container"


class LocalSts:
    """`requests`: the forms that were sent, with the key that signed as `Key`; a container's and a
    machine's have no more. The n-th session has the access key id `ASIA<n>`."""

    def __init__(self, life_s: float = 3600, clock: Clock | None = None) -> None:
        self.life_s = life_s
        self.clock = clock or SystemClock()
        self.requests: list[dict[str, str]] = []
        #: Code and message of the refusal that all get, while there is one.
        self.refusal: tuple[str, str, int] | None = None
        #: What all are answered in place of a session, while there is something.
        self.body: str | None = None
        #: Cleared: requests wait until it is set.
        self.open = threading.Event()
        self.open.set()
        sts = self

        class Face(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                signed_by = self.headers.get("Authorization", "").partition("Credential=")[2]
                form = dict(parse_qsl(body.decode()))
                form["Key"] = signed_by.partition("/")[0]
                sts.requests.append(form)
                self.answer("text/xml", sts.assumed(form["Action"], len(sts.requests)))

            def do_PUT(self) -> None:
                self.answer("text/plain", "metadata-token")

            def do_GET(self) -> None:
                if self.path.endswith("/security-credentials/"):
                    self.answer("text/plain", "machine-role")
                    return
                sts.requests.append({"Action": CONTAINER})
                keys = sts.keys(len(sts.requests))
                keys["Token"] = keys.pop("SessionToken")
                self.answer("application/json", json.dumps(keys))

            def answer(self, kind: str, text: str) -> None:
                sts.open.wait(30)
                status = 200
                if sts.refusal is not None:
                    code, message, status = sts.refusal
                    text = (
                        f"<ErrorResponse><Error><Code>{code}</Code><Message>{message}</Message>"
                        "</Error></ErrorResponse>"
                    )
                body = (sts.body if sts.body is not None else text).encode()
                self.send_response_only(status)
                date = formatdate(sts.clock.now_ms() // 1000, usegmt=True)
                for name, value in (
                    ("Date", date),
                    ("Content-Type", kind),
                    ("Content-Length", str(len(body))),
                ):
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Face)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def calls(self) -> Counter[str]:
        return Counter(form["Action"] for form in list(self.requests))

    def keys(self, number: int) -> dict[str, str]:
        expires = datetime.fromtimestamp(self.clock.now_ms() / 1000 + self.life_s, UTC)
        return {
            "AccessKeyId": f"ASIA{number}",
            "SecretAccessKey": f"NEVERSHOWNSECRET{number}",
            "SessionToken": f"NEVERSHOWNTOKEN{number}",
            "Expiration": expires.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }

    def assumed(self, action: str, number: int) -> str:
        members = "".join(f"<{n}>{v}</{n}>" for n, v in self.keys(number).items())
        return (
            f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result>'
            f"<Credentials>{members}</Credentials></{action}Result></{action}Response>"
        )

    def close(self) -> None:
        self.open.set()
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def local_sts(life_s: float = 3600, clock: Clock | None = None) -> Iterator[LocalSts]:
    sts = LocalSts(life_s, clock)
    try:
        yield sts
    finally:
        sts.close()
