"""One progress report of a query, as figures under the names that Databricks' source uses.

| figure | of a source |
|---|---|
| `avgMsBehindLatest` | milliseconds behind the tip, averaged over the shards that are being read |
| `maxMsBehindLatest`, `minMsBehindLatest` | of the shard furthest behind, and furthest ahead |
| `mode` | `polling` |
| `numStreams` | 1; of a whole query the number of different streams |
| `numTotalShards` | shards that the query tracks, read to their end or not |
| `numClosedShards` | those of them that the service has closed by a split or merge |
| `numProcessedRecords` | rows that the batch of this report read, 0 for an idle one |
| `numAwsRateLimitErrors` | calls of the planner refused for rate since the last report |

Databricks' names and meanings: "Monitoring Structured Streaming queries", the object `sources` of
AWS Kinesis. Theirs are text, these are numbers. They have three more, without a counterpart here:
`totalPrefetchedBytes` (nothing is fetched ahead of the batch that reads it; the backlog is the
time behind), `numProcessedBytes` (Spark takes no figures from the tasks of a Python source) and
`numRegisteredConsumers` (of enhanced fan-out). For the same reason `numAwsRateLimitErrors` lacks
the calls of the tasks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Figure = int | float | str


@dataclass(frozen=True, slots=True)
class SourceFigures:
    """One Kinesis source of a query.

    `place`: its place among all sources of the query, from 0. `lag_ms`: milliseconds behind the tip
    by shard. `throttles`: calls of the planner refused for rate since the query was started.
    """

    place: int
    stream: str
    figures: Mapping[str, Figure]
    lag_ms: Mapping[str, int]
    throttles: int


@dataclass(frozen=True, slots=True)
class QueryFigures:
    """One report: of each Kinesis source in `sources`, of all of them together in `figures`.

    `query_id` stays over restarts, `run_id` does not. `name`: the query's, None if it has none.
    `timestamp`: when the trigger began, ISO 8601 in UTC, by the driver's clock.
    """

    query_id: str
    run_id: str
    name: str | None
    batch_id: int
    timestamp: str
    figures: Mapping[str, Figure]
    sources: tuple[SourceFigures, ...]


def figures_of(progress: Mapping[str, Any], before: QueryFigures | None) -> QueryFigures | None:
    """The figures of a progress report, in the form of Spark's JSON; None if no source of it is a
    Kinesis stream that has been looked at. `before`: of the report before, of the same run."""
    known = {source.place: source.throttles for source in before.sources} if before else {}
    sources = []
    for place, source in enumerate(progress["sources"]):
        report = _report(source)
        if report is not None:
            sources.append(_source_figures(place, source, report, known.get(place, 0)))
    if not sources:
        return None
    return QueryFigures(
        query_id=progress["id"],
        run_id=progress["runId"],
        name=progress.get("name"),
        batch_id=progress["batchId"],
        timestamp=progress["timestamp"],
        figures=_together(sources),
        sources=tuple(sources),
    )


def _report(source: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What the planner said, None for another source or before it has said anything."""
    latest = source.get("latestOffset")
    if isinstance(latest, str):
        try:
            latest = json.loads(latest)
        except ValueError:
            return None
    match latest:
        case {"millisBehindLatest": {"shards": dict()}, "numTotalShards": int(shards)} if shards:
            return latest
    return None


def _source_figures(
    place: int, source: Mapping[str, Any], report: Mapping[str, Any], throttles_before: int
) -> SourceFigures:
    lag_ms: dict[str, int] = report["millisBehindLatest"]["shards"]
    throttles = report["numAwsRateLimitErrors"]
    figures: dict[str, Figure] = {
        **_lag_figures(list(lag_ms.values())),
        "mode": "polling",
        "numStreams": 1,
        "numTotalShards": report["numTotalShards"],
        "numClosedShards": report["numClosedShards"],
        "numProcessedRecords": source["numInputRows"],
        "numAwsRateLimitErrors": throttles - throttles_before,
    }
    return SourceFigures(place, report["stream"], figures, lag_ms, throttles)


def _lag_figures(lags_ms: Sequence[int]) -> dict[str, Figure]:
    """Where every shard has been read to its end, nothing is behind."""
    lags_ms = lags_ms or [0]
    return {
        "avgMsBehindLatest": sum(lags_ms) / len(lags_ms),
        "maxMsBehindLatest": max(lags_ms),
        "minMsBehindLatest": min(lags_ms),
    }


def _together(sources: Sequence[SourceFigures]) -> dict[str, Figure]:
    """The lag is that of all shards; what is counted is added up."""
    counted = {
        name: sum(int(source.figures[name]) for source in sources)
        for name in (
            "numTotalShards",
            "numClosedShards",
            "numProcessedRecords",
            "numAwsRateLimitErrors",
        )
    }
    return {
        **_lag_figures([lag for source in sources for lag in source.lag_ms.values()]),
        "mode": "polling",
        "numStreams": len({source.stream for source in sources}),
        **counted,
    }
