"""The fixture `make_query`: queries on local streams, forgotten after the test."""

from tests.unit.planning.local_query import make_query

__all__ = ["make_query"]
