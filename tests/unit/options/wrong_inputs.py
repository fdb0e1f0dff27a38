"""Wrong inputs and what each says: docs/errors.md is written from here, and held to it by a test.

python -m tests.unit.options.wrong_inputs     writes the page
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql.types import StringType, StructType

from kinesis_source.errors import KinesisSourceError
from kinesis_source.spark.source import SCHEMA, KinesisDataSource

PAGE = Path(__file__).parents[3] / "docs" / "errors.md"
START, END = "<!-- errors:start -->", "<!-- errors:end -->"

ARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"
SECRET = "sEcReT/+="
KEYS = {"awsAccessKeyId": "AKIDEXAMPLE", "awsSecretKey": SECRET}
SHARD = "shardId-000000000001"
INSIDE = (
    f'{{"{SHARD}": {{"iteratorType": "AFTER_SEQUENCE_NUMBER", "iteratorPosition": "4960", '
    '"subSequenceNumber": "3", "isLast": "false"}}'
)


@dataclass(frozen=True, slots=True)
class WrongInput:
    """`options`: all that are given. `shown`: what the page says was done; without it, the options
    other than a right `streamName`. `batch`: read by `spark.read`. `schema`: the user's own."""

    options: dict[str, str]
    shown: str = ""
    batch: bool = False
    schema: StructType = field(default=SCHEMA)

    def title(self) -> str:
        given = {k: v for k, v in self.options.items() if (k, v) != ("streamName", "orders")}
        return self.shown or " ".join(f"{name}={text}" for name, text in given.items())

    def error(self) -> str:
        """As the user is told, names in lower case as Spark hands them over."""
        try:
            source = KinesisDataSource({k.lower(): v for k, v in self.options.items()})
            if self.batch:
                source.reader(self.schema)
            reader = source.streamReader(self.schema)
            reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
        except KinesisSourceError as error:
            return f"{type(error).__name__}: {error}"
        raise AssertionError(f"{self} is not wrong")


def orders(shown: str = "", /, **options: str) -> WrongInput:
    return WrongInput({"streamName": "orders", **options}, shown)


def peer(name: str, text: str) -> WrongInput:
    return WrongInput({"streamName": "orders", name: text})


WRONG_INPUTS = {
    "Names": [
        WrongInput({"streamNmae": "orders"}),
        orders(maxBytesPerTriger="64m"),
        peer("kinesis.roleArn", "arn:aws:iam::123456789012:role/reader"),
        peer("kinesis.metadataComitterType", "HDFS"),
        orders(colour="blue"),
        WrongInput({"path": "orders"}, 'load("orders")'),
    ],
    "The stream": [
        WrongInput({"region": "eu-west-1"}),
        WrongInput({"streamName": "orders,payments"}),
        WrongInput({"streamName": "orders!"}),
        WrongInput({"streamName": ARN}),
        WrongInput({"streamARN": "arn:aws:kinesis:eu-west-1:1234:stream/orders"}),
        WrongInput({"streamARN": ARN + "/consumer/mine:1"}),
        WrongInput({"streamName": "payments", "streamARN": ARN}),
        WrongInput({"region": "us-east-1", "streamARN": ARN}),
        orders(region="eu-west-1", endpointUrl="https://kinesis.us-east-1.amazonaws.com"),
        orders(region="EU (Ireland)"),
        orders(endpointUrl="localhost:4567"),
        orders("endpointUrl=http://me:password@host", endpointUrl="http://me:password@host"),
        orders(endpointUrl="http://kinesis_local:4567"),
    ],
    "Values": [
        orders(failOnDataLoss="no"),
        orders(acceptDataLossUntil="tomorrow"),
        orders(failOnDataLoss="false", acceptDataLossUntil="2026-01-02T03:04:05Z"),
        orders(maxRecordsPerTrigger="0"),
        orders(maxRecordsPerTrigger="10k"),
        orders(maxBytesPerTrigger="64 mega"),
        orders(shardsPerTask="1.5"),
        orders(minFetchPeriod="5"),
        orders(minFetchPeriod="100ms"),
        orders(shardFetchInterval="2 weeks"),
        orders(maxFetchRate="1.0"),
        orders(maxFetchRate="fast"),
    ],
    "Where to start": [
        orders(startingPosition="yesterday"),
        orders(startingPosition="AT_TIMESTAMP noon"),
        orders(startingPosition="AT_TIMESTAMP 2026-01-02T03:04:05"),
        orders(startingPosition="AT_TIMESTAMP 1767323045"),
        orders(startingPosition="AFTER_SEQUENCE_NUMBER 4960"),
        orders(startingPosition=f'{{"{SHARD}": }}'),
        orders(startingPosition='{"shard-1": "LATEST"}'),
        orders(startingPosition=f'{{"{SHARD}": "4960"}}'),
        orders(startingPosition=f'{{"{SHARD}": 4960}}'),
        orders(startingPosition=f'{{"{SHARD}": "AFTER_SEQUENCE_NUMBER 4x"}}'),
        orders(startingPosition=f'{{"{SHARD}": "LATEST", "{SHARD}": "TRIM_HORIZON"}}'),
        orders(startingPosition=INSIDE),
        orders(initialPosition="newest"),
        orders(initialPosition='{"at_timestamp": "06/25/2020 10:23:45"}'),
        orders(
            initialPosition='{"at_timestamp": "06/25/2020 10:23:45 CST", '
            '"format": "MM/dd/yyyy HH:mm:ss ZZZ"}'
        ),
        orders(initialPosition='{"at_timestamp": "25.6.20", "format": "d.M.yy"}'),
        orders(startingPosition="LATEST", startingTimestamp="2026-01-02T03:04:05Z"),
    ],
    "Credentials": [
        orders(awsAccessKeyId="AKIDEXAMPLE"),
        orders("awsSecretKey with a line end", **(KEYS | {"awsSecretKey": SECRET + "\n"})),
        orders("awsSessionToken without keys", awsSessionToken=SECRET),
        orders("keys and profile=analytics", **KEYS, profile="analytics"),
        orders(roleArn="reader"),
        orders(roleExternalId="id-of-theirs"),
        orders(roleArn="arn:aws:iam::123456789012:role/reader", roleSessionName="my job"),
    ],
    "Lease tables": [
        orders(startFromLeaseTable="my table"),
        orders(leaseTableRegion="eu-west-1"),
        orders(
            startFromLeaseTable="orders-app",
            startingPosition=f'{{"{SHARD}": "TRIM_HORIZON"}}',
        ),
    ],
    "Options of other connectors": [
        peer("kinesis.consumerType", "SubscribeToShard"),
        peer("kinesis.metadataPath", "s3://bucket/metadata"),
        peer("kinesis.maxFetchRecordsPerShard", "1000"),
        peer("kinesis.describeShardInterval", "100"),
        WrongInput(
            {"streamName": "orders", "kinesis.streamName": "orders"},
            "streamName=orders kinesis.streamName=orders",
        ),
        WrongInput(
            {"streamName": "orders", "kinesis.region": "eu-west-1", "kinesis.kinesisRegion": "x"},
            "kinesis.region=… kinesis.kinesisRegion=…",
        ),
        WrongInput(
            {"streamName": "orders", "kinesis.sessionToken": SECRET},
            "kinesis.sessionToken without keys",
        ),
        orders(consumerMode="efo"),
        orders(fetchBufferSize="2gb"),
        orders(serviceCredential="kinesis-reader"),
        orders(avoidEmptyBatches="false"),
        orders(fanoutConsumerARN="arn:…"),
    ],
    "Calls": [
        WrongInput({"streamName": "orders"}, "spark.read", batch=True),
        WrongInput(
            {"streamName": "orders"},
            '.schema("value STRING")',
            schema=StructType().add("value", StringType()),
        ),
    ],
}


def page_section() -> str:
    """What stands between the markers of docs/errors.md."""
    parts = []
    for title, inputs in WRONG_INPUTS.items():
        rows = [f"| `{_cell(i.title())}` | `{_cell(i.error())}` |" for i in inputs]
        parts.append("\n".join([f"## {title}", "", "| Given | Answer |", "|---|---|", *rows, ""]))
    return "\n".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", r"\n")


def main() -> None:
    before, _, rest = PAGE.read_text().partition(START)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{START}\n{page_section().strip()}\n{END}{after}")


if __name__ == "__main__":
    main()
