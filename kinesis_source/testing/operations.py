"""The operations the local stream knows, and the parameters each takes."""

from __future__ import annotations

from kinesis_source.testing import control, listing, reading, writing
from kinesis_source.testing.service import Operation


def _parameters(names: str) -> frozenset[str]:
    return frozenset(names.split())


_STREAM = "StreamName StreamARN "

OPERATIONS: dict[str, tuple[Operation, frozenset[str]]] = {
    "CreateStream": (
        control.create_stream,
        _parameters(
            "StreamName ShardCount StreamModeDetails MaxRecordSizeInKiB RecordDistributionStrategy"
        ),
    ),
    "DeleteStream": (
        control.delete_stream,
        _parameters(_STREAM + "EnforceConsumerDeletion"),
    ),
    "DescribeStreamSummary": (control.describe_stream_summary, _parameters(_STREAM)),
    "ListStreams": (
        listing.list_streams,
        _parameters("Limit ExclusiveStartStreamName NextToken"),
    ),
    "ListShards": (
        listing.list_shards,
        _parameters(
            _STREAM
            + "NextToken ExclusiveStartShardId MaxResults StreamCreationTimestamp ShardFilter"
        ),
    ),
    "GetShardIterator": (
        reading.get_shard_iterator,
        _parameters(_STREAM + "ShardId ShardIteratorType StartingSequenceNumber Timestamp"),
    ),
    "GetRecords": (reading.get_records, _parameters("ShardIterator Limit StreamARN")),
    "PutRecord": (
        writing.put_record,
        _parameters(_STREAM + "Data PartitionKey ExplicitHashKey SequenceNumberForOrdering"),
    ),
    "PutRecords": (writing.put_records, _parameters(_STREAM + "Records")),
    "SplitShard": (
        control.split_shard,
        _parameters(_STREAM + "ShardToSplit NewStartingHashKey"),
    ),
    "MergeShards": (
        control.merge_shards,
        _parameters(_STREAM + "ShardToMerge AdjacentShardToMerge"),
    ),
    "UpdateShardCount": (
        control.update_shard_count,
        _parameters(_STREAM + "TargetShardCount ScalingType"),
    ),
    "IncreaseStreamRetentionPeriod": (
        control.increase_retention,
        _parameters(_STREAM + "RetentionPeriodHours"),
    ),
    "DecreaseStreamRetentionPeriod": (
        control.decrease_retention,
        _parameters(_STREAM + "RetentionPeriodHours"),
    ),
}
