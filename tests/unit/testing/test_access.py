from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from kinesis_source.testing import LocalKinesis


def code_of(client: Any) -> str:
    """Of the refusal of a call; empty if it is answered."""
    try:
        client.list_shards(StreamName="orders")
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""


def test_keys_are_refused_as_aws_refuses_them() -> None:
    with LocalKinesis() as kinesis:
        kinesis.create_stream("orders")
        one = kinesis.client(aws_access_key_id="AKIDONE")
        two = kinesis.client(aws_access_key_id="AKIDTWO")
        assert (code_of(one), code_of(two)) == ("", "")
        kinesis.accept_only("AKIDONE")
        assert (code_of(one), code_of(two)) == ("", "UnrecognizedClientException")
        kinesis.expire("AKIDONE")
        assert code_of(one) == "ExpiredTokenException"
        kinesis.accept_only("AKIDONE", "AKIDTWO")
        assert (code_of(one), code_of(two)) == ("", "")
        kinesis.accept_only()
        assert code_of(one) == "UnrecognizedClientException"
        kinesis.accept_any()
        assert (code_of(one), code_of(two)) == ("", "")
        assert kinesis.callers == {("AKIDONE", "ListShards"): 6, ("AKIDTWO", "ListShards"): 4}
        for client in (one, two):
            client.close()


def test_calls_without_a_signature_are_not_looked_at() -> None:
    kinesis = LocalKinesis()
    kinesis.create_stream("orders")
    kinesis.accept_only()
    assert len(kinesis.in_process_client().list_shards(StreamName="orders")["Shards"]) == 1
