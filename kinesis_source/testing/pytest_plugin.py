"""pytest plugin: the fixture `local_kinesis`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kinesis_source.testing.local import LocalKinesis


@pytest.fixture
def local_kinesis() -> Iterator[LocalKinesis]:
    """A running `LocalKinesis` of its own for the test, on the machine's clock."""
    with LocalKinesis() as kinesis:
        yield kinesis
