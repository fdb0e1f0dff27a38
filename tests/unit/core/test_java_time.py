from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kinesis_source.core.java_time import parse_java_time

#: 10:23:45 in Los Angeles on 25 June 2020.
INSTANT = datetime(2020, 6, 25, 17, 23, 45, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("06/25/2020 10:23:45 PDT", "MM/dd/yyyy HH:mm:ss ZZZ"),  # Databricks' own example
        ("06/25/2020 10:23:45 -0700", "MM/dd/yyyy HH:mm:ss Z"),
        ("06/25/2020 10:23:45 GMT-07:00", "MM/dd/yyyy HH:mm:ss z"),
        ("2020-06-25T17:23:45Z", "yyyy-MM-dd'T'HH:mm:ssX"),
        ("2020-06-25T19:23:45+02:00", "uuuu-MM-dd'T'HH:mm:ssXXX"),
        ("25.6.2020 17:23:45 UTC", "d.M.yyyy H:m:s z"),
        ("6/25/2020 5:23:45 pm GMT", "M/d/yyyy h:mm:ss a z"),
        ("2020-06-26 02:23:45 o'clock JST", "yyyy-MM-dd HH:mm:ss 'o''clock' z"),
        ("2020.06.25 19:23:45.000 CEST", "yyyy.MM.dd HH:mm:ss.SSS zzz"),
    ],
)
def test_one_instant_in_many_forms(text: str, pattern: str) -> None:
    assert parse_java_time(text, pattern) == INSTANT


@pytest.mark.parametrize(
    ("text", "hour"), [("12:00 AM", 0), ("1:00 AM", 1), ("12:00 PM", 12), ("11:59 PM", 23)]
)
def test_halves_of_a_day(text: str, hour: int) -> None:
    time = parse_java_time(f"2020-06-25 {text} Z", "yyyy-MM-dd h:mm a X")
    assert time.hour == hour


@pytest.mark.parametrize(
    ("text", "pattern", "reason"),
    [
        ("25/06/2020 10:23 PDT", "MM/dd/yyyy HH:mm z", "does not exist: month must be in 1..12"),
        ("06/31/2020 10:23 PDT", "MM/dd/yyyy HH:mm z", "does not exist: day"),
        ("06/25/2020 10:23 CST", "MM/dd/yyyy HH:mm z", "the zone 'CST' may mean several"),
        ("06/25/2020 10:23 IST", "MM/dd/yyyy HH:mm z", "the zone 'IST' may mean several"),
        ("06/25/2020 10:23", "MM/dd/yyyy HH:mm", "needs year, month, day and a zone"),
        ("10:23 Z", "HH:mm X", "needs year, month, day and a zone"),
        ("2020-06-25 Z", "yyyy-MM-dd X", "needs the hour"),
        ("2020-06-25 5 Z", "yyyy-MM-dd h X", "needs the hour"),
        ("2020-06-25 13 AM Z", "yyyy-MM-dd h a X", "must be in 1..12"),
        ("06/25/20 10:23 Z", "MM/dd/yy HH:mm z", "'yy'"),
        ("25 June 2020 10:23 Z", "d MMMM yyyy HH:mm z", "'MMMM'"),
        ("2020-06-25 10:23:45.12 Z", "yyyy-MM-dd HH:mm:ss.SS z", "'SS'"),
        ("2020-06-25 10 10 Z", "yyyy-MM-dd HH HH z", "has a part twice"),
        ("June 25", "MM/dd/yyyy HH:mm z", "is not of the format"),
        ("06/25/2020 10:23 America/Los_Angeles", "MM/dd/yyyy HH:mm z", "is not of the format"),
    ],
)
def test_what_is_refused_says_why(text: str, pattern: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_java_time(text, pattern)
    assert reason in str(caught.value)


@pytest.mark.parametrize("zone", ["+9999", "+0099", "-1901"])
def test_an_offset_that_does_not_exist_is_refused(zone: str) -> None:
    with pytest.raises(ValueError, match=r"does not exist; expected -18:00 to \+18:00"):
        parse_java_time(f"2026-01-01 00:00 {zone}", "yyyy-MM-dd HH:mm Z")


@pytest.mark.parametrize("text", ["0001-01-01 00:00 +0100", "9999-12-31 23:59 -0100"])
def test_a_time_outside_all_years_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="lies outside the years 1 to 9999"):
        parse_java_time(text, "yyyy-MM-dd HH:mm Z")
