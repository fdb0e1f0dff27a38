"""Checkpoints that releases have written, and a test that queries go on from them.

`<version>/<moment>/` holds `history.json` (all that happened to the stream, and the options),
`batches.json` (what the query had read) and `checkpoint/`, as Spark wrote it.
"""
