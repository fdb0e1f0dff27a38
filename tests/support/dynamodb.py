"""DynamoDB on 127.0.0.1: moto's server, with real HTTP for real SDK clients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from botocore.session import Session
from moto.server import ThreadedMotoServer

KEYS = {"awsAccessKeyId": "AKIDEXAMPLE", "awsSecretKey": "SECRETEXAMPLE"}
REGION = "eu-west-1"


class LocalDynamoDB:
    """`client`: the SDK's own, to write rows past the code under test and to look at them."""

    def __init__(self, url: str, region: str = REGION) -> None:
        self.url = url
        session = Session()
        session.set_credentials(KEYS["awsAccessKeyId"], KEYS["awsSecretKey"])
        self.client: Any = session.create_client("dynamodb", region_name=region, endpoint_url=url)

    def create_lease_table(self, name: str, rows: Iterable[dict[str, Any]] = ()) -> None:
        """A table as the KCL creates it."""
        self.client.create_table(
            TableName=name,
            KeySchema=[{"AttributeName": "leaseKey", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "leaseKey", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        self.put(name, rows)

    def put(self, name: str, rows: Iterable[dict[str, Any]]) -> None:
        requests = [{"PutRequest": {"Item": row}} for row in rows]
        for i in range(0, len(requests), 25):
            self.client.batch_write_item(RequestItems={name: requests[i : i + 25]})

    def row(self, name: str, lease_key: str) -> dict[str, Any] | None:
        answer = self.client.get_item(
            TableName=name, Key={"leaseKey": {"S": lease_key}}, ConsistentRead=True
        )
        row: dict[str, Any] | None = answer.get("Item")
        return row


@contextmanager
def local_dynamodb(region: str = REGION) -> Iterator[LocalDynamoDB]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        local = LocalDynamoDB(f"http://{host}:{port}", region)
        yield local
        # All of moto's servers of a process share their tables.
        for name in local.client.list_tables()["TableNames"]:
            local.client.delete_table(TableName=name)
        local.client.close()
    finally:
        server.stop()
