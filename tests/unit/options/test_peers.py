"""Other connectors' options: each answered, none in a way that means something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinesis_source.core.positions import TRIM_HORIZON, AtTimestamp
from kinesis_source.errors import OptionError
from kinesis_source.options import OPTIONS, Options, Secret
from kinesis_source.options.peers import (
    PEERS,
    Alias,
    Always,
    Peer,
    PeerOption,
    Refused,
    peers_tables,
)
from tests.unit.options.wrong_inputs import SECRET

ROOT = Path(__file__).parents[3]
OURS = {spec.name for spec in OPTIONS}
ALL = [(peer, option) for peer in PEERS for option in peer.options]
#: A value of our own form for each option that others have too.
VALUES = {
    "streamName": "orders",
    "streamARN": "arn:aws:kinesis:eu-west-1:123456789012:stream/orders",
    "region": "eu-west-1",
    "endpointUrl": "https://kinesis.eu-west-1.amazonaws.com",
    "startingPosition": "2026-01-02T03:04:05Z",
    "failOnDataLoss": "false",
    "shardFetchInterval": "30s",
    "minFetchPeriod": "400ms",
    "maxFetchRate": "1m",
    "shardsPerTask": "5",
    "roleArn": "arn:aws:iam::123456789012:role/reader",
    "roleExternalId": "ext",
    "roleSessionName": "job",
    "stsEndpointUrl": "https://sts.eu-west-1.amazonaws.com",
    "awsAccessKeyId": "AKIDEXAMPLE",
    "awsSecretKey": SECRET,
    "awsSessionToken": "tOkEn",
}
#: What an option cannot be given without.
NEEDED = {
    "roleExternalId": ("roleArn",),
    "roleSessionName": ("roleArn",),
    "stsEndpointUrl": ("roleArn",),
    "awsAccessKeyId": ("awsSecretKey",),
    "awsSecretKey": ("awsAccessKeyId",),
    "awsSessionToken": ("awsAccessKeyId", "awsSecretKey"),
}


def given_with(name: str, text: str, ours: str) -> dict[str, str]:
    """Options in which `name` stands for our option `ours`."""
    needed = {need: VALUES[need] for need in NEEDED.get(ours, ())}
    stream = {} if ours in ("streamName", "streamARN") else {"streamName": "orders"}
    return {**stream, **needed, name: text}


def refusal(**given: str) -> str:
    with pytest.raises(OptionError) as caught:
        Options.parse({"streamName": "orders", **given})
    return str(caught.value)


def named(kind: type[Alias | Always | Refused]) -> list[object]:
    return [
        pytest.param(peer, option, id=f"{peer.whose}-{option.name}")
        for peer, option in ALL
        if isinstance(option.answer, kind)
    ]


@pytest.mark.parametrize(("peer", "option"), named(Alias))
def test_an_alias_sets_what_ours_sets_in_any_letter_case(peer: Peer, option: PeerOption) -> None:
    assert isinstance(option.answer, Alias)
    ours = option.answer.ours
    text = VALUES[ours]
    expected = Options.parse(given_with(ours, text, ours))
    for name in (option.name, option.name.lower(), option.name.upper()):
        assert Options.parse(given_with(name, text, ours)) == expected
    assert expected != Options.parse({"streamName": "other"})


@pytest.mark.parametrize(("peer", "option"), named(Alias))
def test_an_alias_and_ours_are_refused_together_by_both_names(
    peer: Peer, option: PeerOption
) -> None:
    assert isinstance(option.answer, Alias)
    ours = option.answer.ours
    if option.name.lower() == ours.lower():
        return
    with pytest.raises(OptionError) as caught:
        Options.parse({**given_with(ours, VALUES[ours], ours), option.name.lower(): VALUES[ours]})
    assert str(caught.value) == (
        f"{ours} and {option.name} ({ours} here) are both given and set the same; "
        "expected one of them. Leave one out"
    )


@pytest.mark.parametrize(("peer", "option"), named(Always))
def test_what_is_done_anyway_may_be_asked_for_and_nothing_else(
    peer: Peer, option: PeerOption
) -> None:
    assert isinstance(option.answer, Always)
    plain = Options.parse({"streamName": "orders"})
    for text in (option.answer.value, option.answer.value.upper()):
        assert Options.parse({"streamName": "orders", option.name: text}) == plain
    message = refusal(**{option.name.lower(): "other"})
    assert message == (
        f"option {option.name} of {peer.whose}: found 'other'; "
        f"expected {option.answer.value}. {option.answer.otherwise}"
    )


@pytest.mark.parametrize(("peer", "option"), named(Refused))
def test_what_has_no_counterpart_says_why_and_never_the_value(
    peer: Peer, option: PeerOption
) -> None:
    assert isinstance(option.answer, Refused)
    message = refusal(**{option.name.upper(): SECRET})
    assert message == f"option {option.name} of {peer.whose} has no counterpart. " + (
        option.answer.why
    )
    assert SECRET not in message


def test_an_option_of_several_connectors_has_one_answer() -> None:
    """It is looked up without knowing where the job comes from."""
    answers: dict[str, Alias | Always | Refused] = {}
    for peer, option in ALL:
        answer = option.answer
        first = answers.setdefault(option.name.lower(), answer)
        if isinstance(answer, Alias) and isinstance(first, Alias):
            assert (answer.ours, answer.convert) == (first.ours, first.convert), option.name
        else:
            assert answer == first, (peer.title, option.name)


def test_no_option_of_ours_is_answered_as_somebody_elses() -> None:
    for _, option in ALL:
        if option.name.lower() in {name.lower() for name in OURS}:
            assert isinstance(option.answer, Alias)
            assert option.answer.ours.lower() == option.name.lower()


def test_what_answers_name_exists() -> None:
    """Each word that looks like an option of ours is one."""
    others = {"latestOffset", "approximateArrivalTimestamp", "from_json", "ListShards"}
    for _, option in ALL:
        match option.answer:
            case Alias(ours=ours):
                assert ours in OURS
            case Always(otherwise=text) | Refused(why=text):
                words = {word.strip(".,:;()") for word in text.split()}
                humps = {w for w in words if w[:1].islower() and w != w.lower()}
                assert {w for w in humps if "(" not in w} - others <= OURS, option.name


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.whose)
def test_no_option_is_declared_twice(peer: Peer) -> None:
    names = [option.name.lower() for option in peer.options]
    assert len(set(names)) == len(names)


def test_the_page_has_the_tables_of_the_declaration() -> None:
    page = (ROOT / "docs" / "migrating.md").read_text()
    between = page.partition("<!-- peers:start -->")[2].partition("<!-- peers:end -->")[0]
    assert between.strip() == peers_tables().strip(), "run `make docs`"
    for _, option in ALL:
        assert f"`{option.name}`" in between


@pytest.mark.parametrize(
    ("name", "text", "ms"),
    [
        ("kinesis.describeShardInterval", "1500", 1500),  # Spark's timeStringAsMs
        ("kinesis.describeShardInterval", "50s", 50_000),
        ("kinesis.client.describeShardInterval", "2000", 2000),
        ("describeShardInterval", "2s", 2000),
        ("shardFetchInterval", "2m", 120_000),
    ],
)
def test_how_often_shards_are_listed(name: str, text: str, ms: int) -> None:
    options = Options.parse({"streamName": "orders", name: text})
    assert options.shard_fetch_interval_ms == ms


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("kinesis.describeShardInterval", "100", "found '100'; expected at least 200ms"),
        ("describeShardInterval", "10", "found '10'; expected a whole number with a unit"),
        ("kinesis.stsRoleArn", "reader", "found 'reader'; expected arn:aws:iam::"),
        ("kinesis.startingPosition", "now", "found 'now'; expected LATEST"),
        ("startingTimestamp", "latest", "found 'latest'; expected a time"),
        ("kinesis.endpointUrl", "http://me:pw@host", "found '***@host'; expected http"),
        ("kinesis.awsSecretKey", "sEcReT\n", "found '***'; expected printable"),
        ("kinesis.sessionToken", "sEcReT\n", "found '***'; expected printable"),
        ("awsAccessKey", "sEc ReT", "found '***'; expected printable"),
    ],
)
def test_a_wrong_value_names_the_option_as_given_and_ours(
    name: str, text: str, expected: str
) -> None:
    message = refusal(**{name.lower(): text})
    assert message.startswith(f"option {name} (")
    assert f" here): {expected}" in message
    assert "ReT" not in message


def test_what_contradicts_itself_is_named_as_given() -> None:
    assert refusal(**{"kinesis.stssessionname": "job"}) == (
        "kinesis.stsSessionName (roleSessionName here) is given without roleArn; "
        "expected roleArn too, or leaseTableRoleArn"
    )
    message = refusal(**{"kinesis.region": "eu-west-1", "kinesis.kinesisregion": "eu-west-1"})
    assert message.startswith("kinesis.region (region here) and kinesis.kinesisRegion (region")


def test_a_job_of_awslabs_runs_as_it_is() -> None:
    options = Options.parse(
        {
            "kinesis.region": "us-east-2",
            "kinesis.streamname": "teststream",
            "kinesis.consumertype": "GetRecords",
            "kinesis.endpointurl": "https://kinesis.us-east-2.amazonaws.com",
            "kinesis.startingposition": "AT_TIMESTAMP 2023-08-30T19:00:05-08:00",
            "kinesis.stsrolearn": "arn:aws:iam::123456789012:role/reader",
            "kinesis.stssessionname": "job",
        }
    )
    assert options.stream_name == "teststream"
    assert options.region == "us-east-2"
    assert options.starting_position == AtTimestamp(1693450805000)
    assert options.role_session_name == "job"


def test_a_job_of_glue_runs_as_it_is() -> None:
    options = Options.parse(
        {
            "streamARN": VALUES["streamARN"],
            "startingPosition": "TRIM_HORIZON",
            "avoidEmptyBatches": "true",
            "addIdleTimeBetweenReads": "false",
            "awsSTSRoleARN": VALUES["roleArn"],
            "awsSTSSessionName": "job",
        }
    )
    assert options.starting_position == TRIM_HORIZON
    assert options.region == "eu-west-1"


def test_a_job_of_databricks_runs_as_it_is_but_for_the_rate() -> None:
    given = {
        "streamName": "orders",
        "region": "us-west-2",
        "initialPosition": "trim_horizon",
        "awsAccessKey": "AKIDEXAMPLE",
        "awsSecretKey": SECRET,
        "minFetchPeriod": "400ms",
        "shardsPerTask": "5",
        "consumerMode": "polling",
    }
    options = Options.parse(given)
    assert options.aws_access_key_id == Secret("AKIDEXAMPLE")
    assert options.starting_position == TRIM_HORIZON
    assert "Databricks' 1.5 MB/s are 1536k here" in refusal(**given | {"maxFetchRate": "1.5"})


def test_all_names_that_are_wrong_are_named_at_once() -> None:
    message = refusal(**{"maxrecordpertrigger": "5", "kinesis.metadatapath": "x", "region": "eu"})
    assert message.startswith("2 options are wrong: unknown option 'maxrecordpertrigger'; did you")
    assert " | option kinesis.metadataPath of awslabs' connector has no counterpart" in message
