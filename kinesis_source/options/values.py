"""From the text of one option to its value. All parsers raise ValueError with what they expect."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import urlsplit


class Secret:
    """Text that shows as `***` wherever it is printed; pickles like any value."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


def parse_duration_ms(text: str) -> int:
    """Milliseconds: a whole number and a unit, such as `200ms`, `10 s`, `5 minutes`."""
    match = re.fullmatch(r"(\d+)\s*([a-z]+)", text.strip().lower(), re.ASCII)
    factor = None if match is None else _MILLISECONDS.get(match[2])
    if match is None or factor is None:
        # Spark takes a bare number as seconds in some places and milliseconds in others.
        raise ValueError("expected a whole number with a unit, such as 200ms, 5s, 10m or 1h")
    return int(match[1]) * factor


_MILLISECONDS = {
    unit: milliseconds
    for units, milliseconds in (
        ("ms millisecond milliseconds", 1),
        ("s sec second seconds", 1000),
        ("m min minute minutes", 60_000),
        ("h hour hours", 3_600_000),
        ("d day days", 86_400_000),
    )
    for unit in units.split()
}


def parse_size(text: str) -> int:
    """Bytes: a whole number and a unit, `k m g t` with or without `b`, in powers of 1024 as in
    Spark; a bare number is bytes. At least 1."""
    match = re.fullmatch(r"(\d+)\s*(?:([kmgt])?b?)", text.strip().lower(), re.ASCII)
    if match is None or int(match[1]) == 0:
        raise ValueError("expected a size such as 512k, 64m, 1g or a number of bytes, at least 1")
    factor: int = 1024 ** " kmgt".index(match[2] or " ")
    return int(match[1]) * factor


def at_least(least: int, unit: str, parse: Callable[[str], int]) -> Callable[[str], int]:
    """`parse`, which gives a number of `unit`, without the values below `least`."""

    def parse_bounded(text: str) -> int:
        try:
            value = parse(text)
        except ValueError as error:
            raise ValueError(f"{error}; at least {least}{unit}") from None
        if value < least:
            raise ValueError(f"expected at least {least}{unit}")
        return value

    return parse_bounded


def parse_fetch_rate(text: str) -> int:
    """Bytes a second, at least 64 KiB."""
    expected = "expected bytes a second such as 512k or 2m, at least 64k"
    # Databricks' option of this name is a number of MB/s, at most 2.
    if re.fullmatch(r"[0-2](\.\d*)?", text.strip(), re.ASCII) and float(text) > 0:
        expected += f"; Databricks' {text.strip()} MB/s are {round(float(text) * 1024)}k here"
    try:
        return at_least(64 << 10, " bytes", parse_size)(text)
    except ValueError:
        raise ValueError(expected) from None


def parse_count(text: str) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdecimal() and int(digits) > 0):
        raise ValueError("expected a whole number, at least 1")
    return int(digits)


def parse_flag(text: str) -> bool:
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise ValueError("expected true or false")


def text_like(pattern: str, expected: str) -> Callable[[str], str]:
    compiled = re.compile(pattern, re.ASCII)

    def parse(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(f"expected {expected}")
        return text

    return parse


def parse_stream_name(text: str) -> str:
    if "," in text:
        raise ValueError("expected one stream: for several use one load() each and union them")
    if text.startswith("arn:"):
        raise ValueError("expected a name; give an ARN as streamARN")
    return text_like(r"[a-zA-Z0-9_.-]{1,128}", "1 to 128 of the characters a-z A-Z 0-9 _ . -")(text)


parse_lease_table = text_like(
    r"[a-zA-Z0-9_.-]{3,255}", "the name of a table: 3 to 255 of the characters a-z A-Z 0-9 _ . -"
)


STREAM_ARN = re.compile(
    r"arn:aws[a-z-]*:kinesis:(?P<region>[a-z0-9-]+):\d{12}:stream/(?P<name>[a-zA-Z0-9_.-]{1,128})",
    re.ASCII,
)


def parse_stream_arn(text: str) -> str:
    if "," in text:
        raise ValueError("expected one stream: for several use one load() each and union them")
    if STREAM_ARN.match(text) and "/consumer/" in text:
        raise ValueError("expected the ARN of the stream alone, which ends before /consumer/")
    if not STREAM_ARN.fullmatch(text):
        raise ValueError("expected arn:aws:kinesis:<region>:<12-digit account>:stream/<name>")
    return text


#: Of these characters the SDK takes hosts.
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\.?", re.ASCII)


def parse_endpoint_url(text: str) -> str:
    try:
        url = urlsplit(text)
        host, _ = url.hostname or "", url.port
        valid = url.scheme in ("http", "https") and url.username is None
    except ValueError:
        valid = False
    if not valid or not (_HOST.fullmatch(host) or ":" in host):
        raise ValueError(
            "expected http(s)://host[:port], without user name or password; a host has letters, "
            "digits, dots and hyphens, and no underscore"
        )
    return text


_AWS_ENDPOINT = re.compile(
    r"(?:.*[.-])?kinesis(?:-fips)?\.(?P<region>[a-z0-9-]+)\."
    r"(?:(?:vpce\.)?amazonaws\.com(?:\.cn)?|api\.(?:aws|amazonwebservices\.com\.cn))",
    re.ASCII,
)


def region_of_endpoint(url: str) -> str | None:
    """The region that is part of the names of AWS's own hosts; None for any other host."""
    match = _AWS_ENDPOINT.fullmatch(urlsplit(url).hostname or "")
    return None if match is None else match["region"]


def parse_secret(text: str) -> Secret:
    # A line end would only be noticed when the header is sent, in an error that quotes it.
    if not re.fullmatch(r"[!-~]+", text):
        raise ValueError(
            "expected printable characters without spaces or line ends: strip what surrounds it"
        )
    return Secret(text)
