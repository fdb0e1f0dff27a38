"""`python -m kinesis_source.testing`: the local stream as a process of its own."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from typing import NoReturn

from kinesis_source.testing.local import LocalKinesis

_LOOK_PERIOD_S = 0.5


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m kinesis_source.testing",
        description="Serve an in-memory Kinesis over HTTP until interrupted.",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=0, help="0 (default) takes a free port")
    parser.add_argument("--stream", action="append", default=[], help="create it; may be repeated")
    parser.add_argument("--shards", type=int, default=1, help="of each stream")
    parser.add_argument("--region", default="us-east-1", help="in the streams' ARNs")
    parser.add_argument("--quotas", action="store_true", help="enforce the service's quotas")
    arguments = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    with LocalKinesis(
        quotas=arguments.quotas,
        host=arguments.host,
        port=arguments.port,
        region=arguments.region,
    ) as kinesis:
        for name in arguments.stream:
            kinesis.create_stream(name, arguments.shards)
        print(kinesis.endpoint_url, flush=True)
        print(
            "options of a query: "
            f"endpointUrl={kinesis.endpoint_url} region={arguments.region} "
            "awsAccessKeyId=local awsSecretKey=local\n"
            f"kinesis-source: --endpoint-url {kinesis.endpoint_url} --region {arguments.region} "
            "--option awsAccessKeyId=local --option awsSecretKey=local",
            file=sys.stderr,
            flush=True,
        )
        never = threading.Event()
        while True:
            # Not for ever: the system may hand a signal to another thread, and Python acts on it
            # only here, when this one wakes.
            never.wait(_LOOK_PERIOD_S)


def _end(*_: object) -> NoReturn:
    raise SystemExit(0)


if __name__ == "__main__":
    main()
