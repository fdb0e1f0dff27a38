from __future__ import annotations

import pickle
import traceback
from typing import Any

import botocore.exceptions as sdk
import pytest
from botocore.config import Config

from kinesis_source.aws.client import CallCounts, IteratorStart, KinesisClient, StreamRef
from kinesis_source.core.hashkeys import HashKeyRange
from kinesis_source.core.shards import Shard, StreamIdentity, StreamSummary
from kinesis_source.errors import (
    AccessDeniedError,
    CredentialsError,
    ExpiredIteratorError,
    InvalidArgumentError,
    KinesisSourceError,
    ResourceNotFoundError,
    ServiceError,
    TransientServiceError,
)
from kinesis_source.testing.clock import ManualClock

ARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"
SHARD = "shardId-000000000001"
SUMMARY = {
    "StreamDescriptionSummary": {
        "StreamName": "orders",
        "StreamARN": ARN,
        "StreamStatus": "UPDATING",
        "RetentionPeriodHours": 48,
        "StreamCreationTimestamp": 1733049000.123,
    }
}
PAGE = {
    "Records": [
        {
            "SequenceNumber": "7",
            "ApproximateArrivalTimestamp": 1733049000.5,
            "Data": "YWI=",
            "PartitionKey": "k",
        }
    ],
    "NextShardIterator": "next",
    "MillisBehindLatest": 40,
}


def listed(number: int, **more: Any) -> dict[str, Any]:
    return {
        "ShardId": f"shardId-{number:012}",
        "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": str(2**128 - 1)},
        "SequenceNumberRange": {"StartingSequenceNumber": "1"},
        **more,
    }


def raised(client: KinesisClient) -> KinesisSourceError:
    with pytest.raises(KinesisSourceError) as caught:
        client.get_records(SHARD, "it", 10)
    return caught.value


class TestCalls:
    def test_describe_stream_summary(self, server: Any, client: KinesisClient) -> None:
        server.answer(SUMMARY)
        assert client.describe_stream_summary() == StreamSummary(
            StreamIdentity(ARN, 1733049000123), "orders", "UPDATING", 48 * 3_600_000
        )
        assert server.requests[0].params == {"StreamName": "orders"}

    def test_the_arn_is_sent_in_place_of_the_name_with_every_call(
        self, server: Any, boto_client: Any, clock: ManualClock
    ) -> None:
        client = KinesisClient(boto_client, StreamRef("orders", ARN), clock)
        for body in (SUMMARY, {"Shards": []}, {"ShardIterator": "it"}, PAGE):
            server.answer(body)
        client.describe_stream_summary()
        client.list_shards()
        client.get_shard_iterator(SHARD, IteratorStart.latest())
        client.get_records(SHARD, "it", 10)
        for request in server.requests:
            assert request.params["StreamARN"] == ARN
            assert "StreamName" not in request.params

    def test_the_listing_is_paged_with_the_token_alone(
        self, server: Any, client: KinesisClient
    ) -> None:
        ended = {"StartingSequenceNumber": "1", "EndingSequenceNumber": "9"}
        server.answer({"Shards": [listed(0, SequenceNumberRange=ended)], "NextToken": "t1"})
        server.answer({"Shards": [], "NextToken": "t2"})
        server.answer(
            {
                "Shards": [
                    listed(
                        1,
                        ParentShardId="shardId-000000000000",
                        AdjacentParentShardId="shardId-000000000009",
                    )
                ]
            }
        )
        everything = HashKeyRange(0, 2**128 - 1)
        assert client.list_shards() == {
            "shardId-000000000000": Shard("shardId-000000000000", everything, closed=True),
            SHARD: Shard(SHARD, everything, "shardId-000000000000", "shardId-000000000009"),
        }
        assert [request.params for request in server.requests] == [
            {"StreamName": "orders"},
            {"NextToken": "t1"},
            {"NextToken": "t2"},
        ]

    def test_an_expired_listing_token_starts_the_listing_over(
        self, server: Any, client: KinesisClient
    ) -> None:
        server.answer({"Shards": [listed(0)], "NextToken": "t1"})
        server.fail("ExpiredNextTokenException")
        server.answer({"Shards": [listed(1)], "NextToken": "t2"})
        server.answer({"Shards": [listed(2)]})
        assert list(client.list_shards()) == [SHARD, "shardId-000000000002"]

    def test_a_listing_that_never_completes_is_transient(
        self, server: Any, client: KinesisClient
    ) -> None:
        for _ in range(3):
            server.answer({"Shards": [listed(0)], "NextToken": "t"})
            server.fail("ExpiredNextTokenException")
        with pytest.raises(TransientServiceError, match=r"orders.*token expired"):
            client.list_shards()

    def test_the_shards_open_at_a_time(self, server: Any, client: KinesisClient) -> None:
        server.answer({"Shards": []})
        client.list_shards(open_at_ms=1733049000123)
        assert server.requests[0].params["ShardFilter"] == {
            "Type": "AT_TIMESTAMP",
            "Timestamp": 1733049000.123,
        }

    @pytest.mark.parametrize(
        ("start", "params"),
        [
            (IteratorStart.trim_horizon(), {"ShardIteratorType": "TRIM_HORIZON"}),
            (IteratorStart.latest(), {"ShardIteratorType": "LATEST"}),
            (
                IteratorStart.at_sequence_number(10**55),
                {
                    "ShardIteratorType": "AT_SEQUENCE_NUMBER",
                    "StartingSequenceNumber": "1" + "0" * 55,
                },
            ),
            (
                IteratorStart.after_sequence_number(0),
                {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": "0"},
            ),
            (
                IteratorStart.at_timestamp(1733049000001),
                {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": 1733049000.001},
            ),
        ],
    )
    def test_get_shard_iterator(
        self, server: Any, client: KinesisClient, start: IteratorStart, params: dict[str, Any]
    ) -> None:
        server.answer({"ShardIterator": "it"})
        assert client.get_shard_iterator(SHARD, start) == "it"
        assert server.requests[0].params == {"StreamName": "orders", "ShardId": SHARD} | params

    def test_get_records(self, server: Any, client: KinesisClient) -> None:
        server.answer(PAGE)
        page = client.get_records(SHARD, "it", 10)
        record = page.records[0]
        assert (record.sequence_number, record.arrival_ms) == (7, 1733049000500)
        assert (record.Data, record.PartitionKey) == (b"ab", "k")
        assert (page.next_iterator, page.millis_behind, page.size_bytes) == ("next", 40, 2)
        assert not page.has_child_shards
        assert server.requests[0].params == {"ShardIterator": "it", "Limit": 10}

    @pytest.mark.parametrize(
        ("more", "has_child_shards"),
        [({}, False), ({"ChildShards": []}, False), ({"ChildShards": [listed(2)]}, True)],
    )
    def test_a_page_without_next_iterator(
        self, server: Any, client: KinesisClient, more: dict[str, Any], has_child_shards: bool
    ) -> None:
        server.answer({"Records": [], "MillisBehindLatest": 0, **more})
        page = client.get_records(SHARD, "it", 10)
        assert page.next_iterator is None
        assert page.has_child_shards is has_child_shards

    def test_the_sdks_own_dicts_are_taken_too(
        self, server: Any, sdk_session: Any, clock: ManualClock
    ) -> None:
        plain = sdk_session.create_client(
            "kinesis", region_name="eu-west-1", endpoint_url=server.url
        )
        server.answer(PAGE)
        page = KinesisClient(plain, StreamRef("orders"), clock).get_records(SHARD, "it", 10)
        assert page.records[0].arrival_ms == 1733049000500
        assert page.records[0].Data == b"ab"


class TestClockAndCounters:
    def test_every_answer_feeds_the_services_clock(
        self, server: Any, client: KinesisClient
    ) -> None:
        server.fail("ResourceNotFoundException")
        raised(client)
        assert client.service_clock.now_ms() == 1767225605000
        server.answer(PAGE, headers={"Date": "Thu, 01 Jan 2026 00:00:09 GMT"})
        client.get_records(SHARD, "it", 10)
        assert client.service_clock.now_ms() == 1767225609000

    def test_calls_and_throttles_are_counted_once(self, server: Any, client: KinesisClient) -> None:
        server.answer(PAGE)
        server.fail("ProvisionedThroughputExceededException")
        server.answer({"Shards": []})
        client.get_records(SHARD, "it", 10)
        raised(client)
        client.list_shards()
        assert client.counters.take() == CallCounts({"GetRecords": 2, "ListShards": 1}, 1)
        assert client.counters.take() == CallCounts({}, 0)

    def test_the_sdks_own_repeats_are_counted(
        self, server: Any, sdk_session: Any, clock: ManualClock
    ) -> None:
        patient = sdk_session.create_client(
            "kinesis",
            region_name="eu-west-1",
            endpoint_url=server.url,
            config=Config(retries={"mode": "standard", "total_max_attempts": 2}),
        )
        client = KinesisClient(patient, StreamRef("orders"), clock)
        server.fail("InternalFailure", status=500)
        server.answer(PAGE)
        client.get_records(SHARD, "it", 10)
        assert client.counters.take().calls == {"GetRecords": 2}


class TestErrors:
    @pytest.mark.parametrize(
        ("code", "status", "expected"),
        [
            ("InternalFailure", 500, TransientServiceError),
            ("InternalFailureException", 400, TransientServiceError),
            ("ServiceUnavailable", 503, TransientServiceError),
            ("SomethingNew", 502, TransientServiceError),
            ("ResourceInUseException", 400, TransientServiceError),
            ("ExpiredIteratorException", 400, ExpiredIteratorError),
            ("ResourceNotFoundException", 400, ResourceNotFoundError),
            ("InvalidArgumentException", 400, InvalidArgumentError),
            ("ValidationException", 400, InvalidArgumentError),
            ("SomethingNew", 400, ServiceError),
            ("com.amazonaws.kinesis.v20131202#ExpiredIteratorException", 400, ExpiredIteratorError),
        ],
    )
    def test_service_errors_name_the_call_and_survive_pickling(
        self,
        server: Any,
        client: KinesisClient,
        code: str,
        status: int,
        expected: type[ServiceError],
    ) -> None:
        server.fail(code, "what AWS said", status)
        error = pickle.loads(pickle.dumps(raised(client)))
        assert type(error) is expected
        assert (error.operation, error.shard_id) == ("GetRecords", SHARD)
        assert "orders" in str(error)
        assert "what AWS said" in str(error)

    @pytest.mark.parametrize(
        ("code", "status"),
        [
            ("ProvisionedThroughputExceededException", 400),
            ("LimitExceededException", 400),
            ("ThrottlingException", 400),
            ("Throttling", 400),
            ("KMSThrottlingException", 400),
            ("SomethingNew", 429),
        ],
    )
    def test_throttles(self, server: Any, client: KinesisClient, code: str, status: int) -> None:
        server.fail(code, status=status)
        error = raised(client)
        assert isinstance(error, TransientServiceError)
        assert error.throttled

    def test_other_transient_errors_are_no_throttles(
        self, server: Any, client: KinesisClient
    ) -> None:
        server.fail("InternalFailure", status=500)
        error = raised(client)
        assert isinstance(error, TransientServiceError)
        assert not error.throttled

    def test_access_denied_names_the_action(self, server: Any, client: KinesisClient) -> None:
        server.fail("AccessDeniedException", "User: arn:aws:iam::1:user/u is not authorized")
        error = raised(client)
        assert isinstance(error, AccessDeniedError)
        for word in ("kinesis:GetRecords", "orders", "User: arn:aws:iam::1:user/u", "executor"):
            assert word in str(error)

    @pytest.mark.parametrize(
        "code",
        [
            "KMSAccessDeniedException",
            "KMSDisabledException",
            "KMSInvalidStateException",
            "KMSNotFoundException",
            "KMSOptInRequired",
        ],
    )
    def test_kms_errors_name_the_action_and_the_key_if_it_is_known(
        self, server: Any, client: KinesisClient, code: str
    ) -> None:
        server.fail(code, "key arn:aws:kms:eu-west-1:1:key/12-ab, and more")
        error = raised(client)
        assert isinstance(error, AccessDeniedError)
        assert "cannot be used: arn:aws:kms:eu-west-1:1:key/12-ab. It must" in str(error)
        assert "kms:Decrypt on it to the credentials on an executor" in str(error)
        server.fail(code, "The ciphertext refers to a key that does not exist")
        assert "cannot be used. It must be enabled" in str(raised(client))

    @pytest.mark.parametrize(
        "code",
        [
            "UnrecognizedClientException",
            "InvalidSignatureException",
            "MissingAuthenticationTokenException",
            "IncompleteSignatureException",
        ],
    )
    def test_a_refused_signature_is_not_quoted(
        self, server: Any, client: KinesisClient, code: str
    ) -> None:
        server.fail(code, "should have been 'x-amz-security-token:TOKENEXAMPLE AKIDEXAMPLE'")
        error = raised(client)
        assert isinstance(error, CredentialsError)
        assert "executor" in str(error)
        shown = "".join(traceback.format_exception(error)) + repr(error)
        assert "TOKENEXAMPLE" not in shown
        assert "AKIDEXAMPLE" not in shown

    def test_an_expired_token_is_a_matter_of_credentials(
        self, server: Any, client: KinesisClient
    ) -> None:
        server.fail("ExpiredTokenException")
        error = raised(client)
        assert isinstance(error, CredentialsError)
        assert "executor" in str(error)

    @pytest.mark.parametrize(
        ("failure", "expected"),
        [
            (sdk.NoCredentialsError(), CredentialsError),
            (sdk.PartialCredentialsError(provider="env", cred_var="x"), CredentialsError),
            (sdk.TokenRetrievalError(provider="sso", error_msg="expired"), CredentialsError),
            (sdk.CredentialRetrievalError(provider="p", error_msg="no"), CredentialsError),
            (sdk.SSOTokenLoadError(error_msg="gone"), CredentialsError),
            (sdk.UnauthorizedSSOTokenError(), CredentialsError),
            (sdk.ProfileNotFound(profile="p"), CredentialsError),
            (sdk.NoRegionError(), CredentialsError),
            (sdk.ReadTimeoutError(endpoint_url="http://k"), TransientServiceError),
            (sdk.ConnectTimeoutError(endpoint_url="http://k"), TransientServiceError),
            (sdk.ConnectionClosedError(endpoint_url="http://k"), TransientServiceError),
            (sdk.ResponseStreamingError(error="cut"), TransientServiceError),
            (
                sdk.IncompleteReadError(actual_bytes=1, expected_bytes=2),
                TransientServiceError,
            ),
        ],
    )
    def test_failures_without_an_answer(
        self, clock: ManualClock, failure: Exception, expected: type[Exception]
    ) -> None:
        class Failing:
            def get_records(self, **_: object) -> dict[str, Any]:
                raise failure

        error = raised(KinesisClient(Failing(), StreamRef("orders"), clock))
        assert type(error) is expected

    def test_a_role_that_cannot_be_assumed_names_the_sts_action(self, clock: ManualClock) -> None:
        class Failing:
            def get_records(self, **_: object) -> dict[str, Any]:
                raise sdk.ClientError(
                    {"Error": {"Code": "AccessDenied", "Message": "not authorized"}}, "AssumeRole"
                )

        error = raised(KinesisClient(Failing(), StreamRef("orders"), clock, role="driver"))
        assert isinstance(error, AccessDeniedError)
        assert "sts:AssumeRole" in str(error)
        assert "driver" in str(error)


class TestBrokenAnswers:
    """Nothing is concluded from an answer that did not arrive whole."""

    def test_a_reset(self, server: Any, client: KinesisClient) -> None:
        server.reset()
        assert isinstance(raised(client), TransientServiceError)

    def test_a_body_shorter_than_its_length(self, server: Any, client: KinesisClient) -> None:
        server.answer(b'{"Records": [', content_length=100)
        assert isinstance(raised(client), TransientServiceError)

    @pytest.mark.parametrize(
        "body", [b"", b'{"Records": [], "Milli', b"<html/>", b"null", b"\xff", b"{}"]
    )
    def test_a_body_that_is_no_answer(
        self, server: Any, client: KinesisClient, body: bytes
    ) -> None:
        calls = (
            client.describe_stream_summary,
            client.list_shards,
            lambda: client.get_shard_iterator(SHARD, IteratorStart.latest()),
            lambda: client.get_records(SHARD, "it", 10),
        )
        for call in calls:
            server.answer(body)
            with pytest.raises(TransientServiceError):
                call()
            server.answer(body, headers={"Content-Type": "text/html"})
            with pytest.raises(TransientServiceError):
                call()

    @pytest.mark.parametrize(
        "body",
        [
            {"NextShardIterator": "it", "MillisBehindLatest": 0},
            {"Records": [], "NextShardIterator": "it"},
        ],
    )
    def test_a_page_without_records_or_millis_behind(
        self, server: Any, client: KinesisClient, body: dict[str, Any]
    ) -> None:
        server.answer(body)
        assert "incomplete" in str(raised(client))

    def test_a_host_that_does_not_exist_is_named(
        self, sdk_session: Any, clock: ManualClock
    ) -> None:
        lost = sdk_session.create_client(
            "kinesis",
            region_name="eu-west-1",
            endpoint_url="http://127.0.0.1:9",
            config=Config(retries={"total_max_attempts": 1}),
        )
        error = raised(KinesisClient(lost, StreamRef("orders"), clock))
        assert isinstance(error, TransientServiceError)
        assert "http://127.0.0.1:9/" in str(error)

    def test_a_header_that_cannot_be_sent_is_not_quoted(
        self, server: Any, clock: ManualClock
    ) -> None:
        """http.client quotes the value: a token with a line end in it, say."""

        class Failing:
            def get_records(self, **_: object) -> dict[str, Any]:
                raise sdk.HTTPClientError(error=ValueError("Invalid header value b'TOKEN\\n'"))

        error = raised(KinesisClient(Failing(), StreamRef("orders"), clock))
        assert "TOKEN" not in "".join(traceback.format_exception(error))

    def test_an_error_answer_that_is_no_text(self, server: Any, client: KinesisClient) -> None:
        server.answer(b"\xff", 503)
        assert isinstance(raised(client), TransientServiceError)
