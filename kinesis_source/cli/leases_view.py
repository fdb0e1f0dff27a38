"""`kinesis-source leases` for people."""

from __future__ import annotations

from collections import defaultdict

from kinesis_source.cli.lease_survey import LIVE_CHECK_S, LeaseSurvey
from kinesis_source.cli.lease_writing import WritingPlan
from kinesis_source.cli.printing import Cell, print_facts, print_lines, print_table
from kinesis_source.cli.shards_view import name_and_state
from kinesis_source.cli.words import checkpoint
from kinesis_source.core.lease_audit import NOTICES, FindingKind
from kinesis_source.core.leases import Lease, Sentinel
from kinesis_source.core.lineage_tree import TreeRow, tree_rows

_BACKWARDS = (
    "BACKWARDS: the lease is ahead of the checkpoint, as a KCL application has read on since. It "
    "would read those records again."
)


def show_survey(survey: LeaseSurvey, full: bool) -> None:
    owners = sorted({owner for lease in survey.leases.values() for owner in lease.owners})
    print_facts(
        {
            "Table": f"{survey.table}, {len(survey.leases)} leases",
            "Stream": survey.stream.identity.arn,
            "Owners": ", ".join(owners) or "none",
        }
    )
    marks: dict[str, list[str]] = defaultdict(list)
    for finding in survey.findings:
        if finding.kind is not FindingKind.OWNED:
            for shard_id in finding.shard_ids[:1]:
                marks[shard_id].append(finding.kind)
    columns = ["shard", "state", "lease", "owner", ""]
    rows = tree_rows(survey.parents)
    print_table(columns, (_row(row, survey, marks[row.shard_id], full) for row in rows))
    print_lines(
        Cell(f"{finding.kind}: {finding.sentence}", _meaning(finding.kind))
        for finding in survey.findings
    )
    if not survey.findings:
        print_lines([Cell("Nothing is wrong with it.", "good")])
    print_lines(_liveness(survey))


def _row(row: TreeRow, survey: LeaseSurvey, marks: list[str], full: bool) -> list[str]:
    cells = name_and_state(row, survey.shards[row.shard_id])
    if row.repeated:
        return cells
    lease = survey.leases.get(row.shard_id)
    owner = (lease.owner or "") if lease is not None else ""
    return [*cells, _checkpoint(lease, full), owner, Cell(", ".join(marks), "bad")]


def _checkpoint(lease: Lease | None, full: bool) -> str:
    if lease is None:
        return Cell("none", "aside")
    meaning = "aside" if lease.checkpoint is Sentinel.SHARD_END else ""
    return Cell(checkpoint(lease.checkpoint, full), meaning)


def _meaning(kind: FindingKind) -> str:
    return "notice" if kind in NOTICES else "bad"


def _liveness(survey: LeaseSurvey) -> list[str]:
    if survey.moving is None:
        if any(lease.owners for lease in survey.leases.values()):
            return [f"Whether these owners are alive: --live reads again after {LIVE_CHECK_S} s."]
        return []
    if not survey.moving:
        still = f"Not one lease was written to within {LIVE_CHECK_S} s"
        return [f"{still}; a running worker does so every 3 s, unless it was set up otherwise."]
    owners = sorted({owner for lease in survey.moving for owner in lease.owners}) or ["somebody"]
    return [
        Cell(
            f"Running: {', '.join(owners)} wrote to {len(survey.moving)} leases within "
            f"{LIVE_CHECK_S} s.",
            "notice",
        )
    ]


def show_plan(plan: WritingPlan, batch: int, full: bool) -> None:
    print_facts(
        {
            "Table": plan.table,
            "From": f"batch {batch}, the last that was committed",
            "Rows": f"{len(plan.rows)} to write, {plan.same} say the same already",
        }
    )
    if plan.rows:
        rows = []
        for change in plan.rows:
            before = _checkpoint(change.expected, full)
            after = _checkpoint(change.lease, full)
            if change.rewinds:
                note = Cell("BACKWARDS", "bad")
            else:
                note = Cell("with its children" if before == after else "", "aside")
            rows.append([change.lease.lease_key, before, after, note])
        print_table(["lease", "now", "will be", ""], rows)
    if any(change.rewinds for change in plan.rows):
        print_lines([Cell(_BACKWARDS, "bad")])


def show_outcome(plan: WritingPlan, written: bool, problem: str | None) -> None:
    """`problem`: why the table could not be read before it is created."""
    if written:
        print_lines([Cell(f"{len(plan.rows)} rows written.", "good")])
        return
    lines = [Cell(f"{problem}. --yes creates it.", "notice")] if problem else []
    if plan.owned:
        owners = sorted({owner for lease in plan.owned for owner in lease.owners})
        text = f"{len(plan.owned)} leases have owners ({', '.join(owners[:3])}), so --yes refuses."
        lines.append(Cell(f"{text} If they have stopped, add --release-owners.", "notice"))
    if plan.rows:
        lines.append(Cell("Nothing was written. --yes writes it."))
    print_lines(lines)
