"""A strict local Kinesis stream for tests: real refusals, faults on demand, a clock to move.

    with LocalKinesis() as kinesis:
        kinesis.create_stream("orders", shards=4)
        kinesis.put("orders", b"first", "key")
        spark.readStream.format("kinesis").options(**kinesis.spark_options("orders")).load()

The pytest plugin gives the same as the fixture `local_kinesis`. In memory; one account and region.
"""

from kinesis_source.testing.clock import ManualClock
from kinesis_source.testing.faults import Fault, FaultKind
from kinesis_source.testing.in_process import InProcessClient
from kinesis_source.testing.local import Ledger, LedgerShard, LocalKinesis, PutResult
from kinesis_source.testing.quotas import QuotaLimits
from kinesis_source.testing.service import Behaviour
from kinesis_source.testing.service_error import ServiceError
from kinesis_source.testing.stream import Record

__all__ = [
    "Behaviour",
    "Fault",
    "FaultKind",
    "InProcessClient",
    "Ledger",
    "LedgerShard",
    "LocalKinesis",
    "ManualClock",
    "PutResult",
    "QuotaLimits",
    "Record",
    "ServiceError",
]
