"""Times as Java programs write them: a text and a pattern of letters, as Databricks takes them.

Of the letters of `SimpleDateFormat` and `DateTimeFormatter` those that mean the same in both:
`yyyy` (or `uuuu`), `MM dd HH hh mm ss` (single: one digit or two), `SSS`, `a` for AM or PM, a zone
by any number of `z`, `Z` or `X`, and text between quotes. Year, month, day, hour and zone are
needed: where the zone is missing, Java takes the machine's.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_FIELDS = {
    "yyyy": r"(?P<year>\d{4})",
    "uuuu": r"(?P<year>\d{4})",
    "MM": r"(?P<month>\d\d)",
    "M": r"(?P<month>\d\d?)",
    "dd": r"(?P<day>\d\d)",
    "d": r"(?P<day>\d\d?)",
    "HH": r"(?P<hour>\d\d)",
    "H": r"(?P<hour>\d\d?)",
    "hh": r"(?P<half_day_hour>\d\d)",
    "h": r"(?P<half_day_hour>\d\d?)",
    "a": r"(?P<half_day>[AaPp][Mm])",
    "mm": r"(?P<minute>\d\d)",
    "m": r"(?P<minute>\d\d?)",
    "ss": r"(?P<second>\d\d)",
    "s": r"(?P<second>\d\d?)",
    "SSS": r"(?P<millisecond>\d{3})",
}
_ZONE = r"(?P<zone>(?:UTC|GMT)?[+-]\d\d:?\d\d|[A-Z]{1,4})"

#: Hours from UTC. Only abbreviations that mean one offset wherever the tz database has used them
#: since 2018, and PST, which is Manila's too but not in Java; not CST, IST, BST.
_ZONES = {
    **{"Z": 0, "UTC": 0, "GMT": 0, "WET": 0, "WEST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3},
    **{"EST": -5, "EDT": -4, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7, "JST": 9},
}


#: A quote within quotes is written twice, and so is one outside.
_TOKEN = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|(?P<letter>[A-Za-z])(?P=letter)*|.", re.DOTALL)


def parse_java_time(text: str, pattern: str) -> datetime:
    """The time, in UTC. Raises ValueError with what is wrong with the text or the pattern."""
    try:
        match = re.fullmatch(_regex_of(pattern), text, re.ASCII)
    except re.error:
        raise ValueError(f"the format {pattern!r} has a part twice") from None
    if match is None:
        raise ValueError(f"the time {text!r} is not of the format {pattern!r}")
    parts = match.groupdict()
    if not {"year", "month", "day", "zone"} <= parts.keys():
        raise ValueError(f"the format {pattern!r} needs year, month, day and a zone")
    try:
        local = datetime(
            int(parts["year"]),
            int(parts["month"]),
            int(parts["day"]),
            _hour(parts),
            int(parts.get("minute", 0)),
            int(parts.get("second", 0)),
            1000 * int(parts.get("millisecond", 0)),
            UTC,
        )
    except ValueError as error:
        raise ValueError(f"the time {text!r} does not exist: {error}") from None
    try:
        return local - _offset(parts["zone"])
    except OverflowError:
        raise ValueError(f"the time {text!r} lies outside the years 1 to 9999") from None


def _regex_of(pattern: str) -> str:
    regex = ""
    for token in _TOKEN.finditer(pattern):
        if token["quoted"] is not None:
            regex += re.escape(token["quoted"].replace("''", "'") or "'")
        elif token["letter"] is None:
            regex += re.escape(token[0])
        elif token["letter"] in "zZX":
            regex += _ZONE
        elif token[0] in _FIELDS:
            regex += _FIELDS[token[0]]
        else:
            known = " ".join(_FIELDS)
            raise ValueError(
                f"{token[0]!r} of the format {pattern!r} has no meaning here; expected of {known} "
                "and z, Z or X for the zone"
            )
    return regex


def _hour(parts: dict[str, str]) -> int:
    if "hour" in parts:
        return int(parts["hour"])
    if "half_day_hour" not in parts or "half_day" not in parts:
        raise ValueError("the format needs the hour, by HH or by hh with a")
    hour = int(parts["half_day_hour"])
    if not 1 <= hour <= 12:
        raise ValueError("the hour of half a day must be in 1..12")
    return hour % 12 + 12 * (parts["half_day"].lower() == "pm")


def _offset(zone: str) -> timedelta:
    if zone in _ZONES:
        return timedelta(hours=_ZONES[zone])
    numbers = re.search(r"([+-])(\d\d):?(\d\d)$", zone)
    if numbers is None:
        raise ValueError(f"the zone {zone!r} may mean several; expected an offset such as +02:00")
    hours, minutes = int(numbers[2]), int(numbers[3])
    if hours > 18 or minutes > 59:
        raise ValueError(f"the offset {zone!r} does not exist; expected -18:00 to +18:00")
    offset = timedelta(hours=hours, minutes=minutes)
    return -offset if numbers[1] == "-" else offset
