"""`python -m kinesis_source.cli`: the same as `kinesis-source`."""

from kinesis_source.cli import main

main()
