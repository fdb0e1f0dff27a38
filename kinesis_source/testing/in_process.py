"""A client without sockets: the methods, answers and exceptions of a boto3 Kinesis client."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import formatdate
from typing import Any, NoReturn

from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ParamValidationError,
    ResponseStreamingError,
)

from kinesis_source.testing.service import Answer, Service, TransportFault
from kinesis_source.testing.service_error import ServiceError
from kinesis_source.testing.stream import RecordsPage

_ENDPOINT = "in-process://kinesis"


class InProcessClient:
    """Answers within the caller's thread, in some tens of microseconds. Thread-safe.

    Differences from boto3: GetRecords gives `ApproximateArrivalTimestamp` in seconds, as on the
    wire, not as a datetime; nothing is retried, whatever the error; an answer cut short against
    its Content-Length raises, where boto3 (botocore 1.44) takes it for an empty one.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._date = (-1, "")

    def create_stream(self, **request: Any) -> Answer:
        return self._call("CreateStream", request)

    def delete_stream(self, **request: Any) -> Answer:
        return self._call("DeleteStream", request)

    def describe_stream_summary(self, **request: Any) -> Answer:
        answer = self._call("DescribeStreamSummary", request)
        summary = answer.get("StreamDescriptionSummary")
        if summary is not None:  # else the answer was cut
            created = datetime.fromtimestamp(summary["StreamCreationTimestamp"], UTC)
            summary["StreamCreationTimestamp"] = created
        return answer

    def list_streams(self, **request: Any) -> Answer:
        return self._call("ListStreams", request)

    def list_shards(self, **request: Any) -> Answer:
        if isinstance(request.get("ShardFilter"), dict):
            request["ShardFilter"] = _with_seconds(request["ShardFilter"], "Timestamp")
        return self._call("ListShards", _with_seconds(request, "StreamCreationTimestamp"))

    def get_shard_iterator(self, **request: Any) -> Answer:
        return self._call("GetShardIterator", _with_seconds(request, "Timestamp"))

    def get_records(self, **request: Any) -> Answer:
        answer = self._call("GetRecords", request)
        if "Records" in answer:
            answer["Records"] = _rows(answer["Records"])
        return answer

    def put_record(self, **request: Any) -> Answer:
        return self._call("PutRecord", request)

    def put_records(self, **request: Any) -> Answer:
        return self._call("PutRecords", request)

    def split_shard(self, **request: Any) -> Answer:
        return self._call("SplitShard", request)

    def merge_shards(self, **request: Any) -> Answer:
        return self._call("MergeShards", request)

    def update_shard_count(self, **request: Any) -> Answer:
        return self._call("UpdateShardCount", request)

    def increase_stream_retention_period(self, **request: Any) -> Answer:
        return self._call("IncreaseStreamRetentionPeriod", request)

    def decrease_stream_retention_period(self, **request: Any) -> Answer:
        return self._call("DecreaseStreamRetentionPeriod", request)

    def close(self) -> None:
        """Nothing to release."""

    def _call(self, operation: str, request: dict[str, Any]) -> Answer:
        unknown = request.keys() - self._service.parameters(operation)
        if unknown:
            raise ParamValidationError(report=f"Unknown parameter in input: {sorted(unknown)}")
        try:
            answer = self._service.call(operation, request)
        except ServiceError as error:
            raise self._client_error(error, operation) from None
        except TransportFault as fault:
            if fault.kind == "truncated_consistent":
                answer = {}
            else:
                _raise_transport_error(fault)
        answer["ResponseMetadata"] = self._metadata(200)
        return answer

    def _client_error(self, error: ServiceError, operation: str) -> ClientError:
        response: Any = {
            "Error": {"Message": error.message, "Code": error.code},
            "ResponseMetadata": self._metadata(error.status),
            "message": error.message,
        }
        return ClientError(response, operation)

    def _metadata(self, status: int) -> dict[str, Any]:
        second = self._service.state.clock.now_ms() // 1000
        if self._date[0] != second:
            self._date = (second, formatdate(second, usegmt=True))
        return {
            "HTTPStatusCode": status,
            "HTTPHeaders": {"date": self._date[1]},
            "RetryAttempts": 0,
        }


def _raise_transport_error(fault: TransportFault) -> NoReturn:
    if fault.kind == "reset":
        raise ConnectionClosedError(endpoint_url=_ENDPOINT)
    raise ResponseStreamingError(error="IncompleteRead")


def _rows(page: RecordsPage) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for record in page.shard.records[page.start : page.end]:
        row: dict[str, Any] = {
            "SequenceNumber": str(record.sequence_number),
            "ApproximateArrivalTimestamp": record.arrival_ms / 1000,
            "Data": record.data,
        }
        if record.partition_key is not None:
            row["PartitionKey"] = record.partition_key
        rows.append(row)
    return rows


def _with_seconds(request: dict[str, Any], name: str) -> dict[str, Any]:
    """boto3 takes datetimes; the wire has seconds."""
    value = request.get(name)
    return {**request, name: value.timestamp()} if isinstance(value, datetime) else request
