"""The mutations. Where another rule would hide the loss of one, both are off.

An edit is (file in the package, text that occurs once, text in its place).
"""

from __future__ import annotations

from dataclasses import dataclass

Edit = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Mutation:
    """`tests`: where to look first; the random histories run in any case."""

    name: str
    edits: tuple[Edit, ...]
    tests: str


_LINEAGE = "core/lineage.py"
_CURSOR = "aws/cursor.py"
_READER = "reading/shard_reader.py"
_PLANNER = "planning/planner.py"

# An overlap with a shard that is being read keeps most wrong shards out as well.
_NO_OVERLAP_RULE = (_LINEAGE, "        if not strangers:\n", "        if True:\n")

MUTATIONS = (
    Mutation(
        "a shard enters when no listed parent is unfinished",
        (
            (
                _LINEAGE,
                "not is_finished(tracked.get(p)) and p not in settled and p not in expired\n",
                "p in tracked and not is_finished(tracked[p])\n",
            ),
            _NO_OVERLAP_RULE,
        ),
        "tests/unit/core",
    ),
    Mutation(
        "SHARD_END leaves once its listed children are tracked",
        (
            (
                _LINEAGE,
                "            if covers(ranges, lineage.shards[shard_id].hash_keys):\n",
                "            if all(i in tracked for i in lineage.children(shard_id)):\n",
            ),
        ),
        "tests/unit/core",
    ),
    Mutation(
        "SHARD_END leaves in the batch that reached it",
        (
            (
                _LINEAGE,
                "not is_finished(tracked[shard_id]) or not is_finished(start.get(shard_id))",
                "not is_finished(tracked[shard_id])",
            ),
        ),
        "tests/unit/core",
    ),
    Mutation(
        "a hidden middle generation is skipped",
        (
            (
                "planning/known_shards.py",
                "gone = {i for i, answer in exists.items() if answer is False}",
                "gone = {i for i in exists if i not in self.lineage.shards}",
            ),
        ),
        "tests/unit/planning/test_reshards.py",
    ),
    Mutation(
        "an aged position is opened AFTER its number",
        (
            (
                _CURSOR,
                "            return IteratorStart.at_sequence_number(self._opens_at)\n",
                "            return IteratorStart.after_sequence_number(self._opens_at)\n",
            ),
            (
                _CURSOR,
                "            self._unproven = _Proof.PLACE\n        self._held",
                "            pass\n        self._held",
            ),
        ),
        "tests/unit/aws/test_cursor.py",
    ),
    Mutation(
        "AvailableNow returns start on a capped walk",
        (
            (
                _PLANNER,
                "            if isinstance(start, Offset) and self._targets is None:\n",
                "            if isinstance(start, Offset):\n",
            ),
        ),
        "tests/unit/planning/test_available_now.py",
    ),
    Mutation(
        "< for ≤ at a range's end",
        (
            (
                _READER,
                "records = records[: bisect_right(records, last, key=_number)]",
                "records = [r for r in records if r.sequence_number < last]",
            ),
            (_READER, "if not records or records[-1].sequence_number != last:", "if False:"),
        ),
        "tests/unit/reading",
    ),
    Mutation(
        "sequence numbers compared as text",
        (
            (
                _READER,
                "records[-1].sequence_number >= last:",
                "str(records[-1].sequence_number) >= str(last):",
            ),
            (
                _READER,
                "bisect_right(records, last, key=_number)",
                "bisect_right(records, str(last), key=lambda r: str(r.sequence_number))",
            ),
            (_READER, "if not records or records[-1].sequence_number != last:", "if False:"),
        ),
        "tests/unit/reading",
    ),
    Mutation(
        "LATEST resolved again on a replay",
        (
            (
                _PLANNER,
                "        return plan_ranges(start, end, self._first_records)\n",
                "        if not isinstance(start, Offset):\n"
                "            again = self._places(start)\n"
                "            end = Offset(end.stream, end.shards, again)\n"
                "        return plan_ranges(start, end, self._first_records)\n",
            ),
        ),
        "tests/unit/planning/test_start.py",
    ),
    Mutation(
        "a missing NextShardIterator believed at once",
        (
            (
                _CURSOR,
                "        elif page.has_child_shards or (self",
                "        elif True or page.has_child_shards or (self",
            ),
            (
                "planning/watch.py",
                "page.reached is Reached.END and not (closed or page.has_child_shards)",
                "False",
            ),
        ),
        "tests/unit/aws/test_cursor.py",
    ),
    Mutation(
        "only one merge parent checked",
        (
            (
                _LINEAGE,
                "            for p in shard.parent_ids\n            if not is_finished(tracked",
                "            for p in shard.parent_ids[:1]\n            if not is_finished(tracked",
            ),
            _NO_OVERLAP_RULE,
        ),
        "tests/unit/core",
    ),
    Mutation(
        "read-until time kept for the stream, not the shard",
        (
            (
                _PLANNER,
                "i: TrackedShard(place.position, self._batches.read_until_ms(i, place))\n",
                "i: TrackedShard(\n"
                "                place.position,\n"
                "                max(\n"
                "                    (self._batches.read_until_ms(j, p) or 0)\n"
                "                    for j, p in plan.shards.items()\n"
                "                )\n"
                "                or None,\n"
                "            )\n",
            ),
        ),
        "tests/unit/planning/test_loss.py",
    ),
)
