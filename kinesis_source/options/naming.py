"""From the names that a user wrote, ours or another connector's, to our options."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from kinesis_source.errors import OptionError
from kinesis_source.options.declaration import OPTIONS
from kinesis_source.options.peers import PEERS, Alias, Always, Peer, PeerOption, Refused

_OURS = {spec.name.lower(): spec.name for spec in OPTIONS}
#: Names that several have (`numRetries`) have the same answer in all; a test holds them to it.
_THEIRS: dict[str, tuple[Peer, PeerOption]] = {}
for _peer in PEERS:
    for _option in _peer.options:
        _THEIRS.setdefault(_option.name.lower(), (_peer, _option))


@dataclass(frozen=True, slots=True)
class Given:
    """`said`: the option's name and `found`: its value as the user wrote them, for errors.
    `converted`: the value in our form where that is another."""

    said: str
    found: str
    converted: str | None = None

    @property
    def text(self) -> str:
        return self.found if self.converted is None else self.converted


def resolve_names(given: Mapping[str, str]) -> dict[str, Given]:
    """By the names of our options. Names of other connectors that mean the same become ours; those
    that ask for what is always done are left out. In any letter case.

    Raises `OptionError` with all that is wrong: an unknown name, a name without a counterpart, two
    names for one option.
    """
    resolved: dict[str, Given] = {}
    problems: list[str] = []
    for name, text in given.items():
        try:
            ours, value = _resolve(name, text)
        except OptionError as error:
            problems.append(str(error))
            continue
        if ours is None:
            continue
        if ours in resolved:
            problems.append(
                f"{resolved[ours].said} and {value.said} are both given and set the same; "
                "expected one of them. Leave one out"
            )
        resolved[ours] = value
    if problems:
        counted = f"{len(problems)} options are wrong: " if len(problems) > 1 else ""
        raise OptionError(counted + " | ".join(problems))
    return resolved


def _resolve(name: str, text: str) -> tuple[str | None, Given]:
    ours = _OURS.get(name.lower())
    if ours is not None:
        return ours, Given(ours, text)
    if name.lower() not in _THEIRS:
        raise OptionError(_unknown(name))
    peer, option = _THEIRS[name.lower()]
    match option.answer:
        case Alias(ours=ours, convert=convert):
            return ours, Given(f"{option.name} ({ours} here)", text, convert(text))
        case Always(value=value, otherwise=otherwise):
            if text.strip().lower() != value.lower():
                raise OptionError(
                    f"option {option.name} of {peer.whose}: found {text!r}; expected {value}. "
                    f"{otherwise}"
                )
            return None, Given(option.name, text)
        case Refused(why=why):
            # Not the value: it may be a secret.
            raise OptionError(f"option {option.name} of {peer.whose} has no counterpart. {why}")


def _unknown(name: str) -> str:
    if name.lower() == "path":
        return "kinesis takes no path: call load() without one and set streamName"
    near = difflib.get_close_matches(name.lower().removeprefix("kinesis."), _OURS, n=1)
    if near:
        return f"unknown option {name!r}; did you mean {_OURS[near[0]]!r}?"
    near = difflib.get_close_matches(name.lower(), _THEIRS, n=1)
    if near:
        peer, option = _THEIRS[near[0]]
        return f"unknown option {name!r}; did you mean {option.name!r} of {peer.whose}?"
    return f"unknown option {name!r}; expected one of {', '.join(_OURS.values())}"
