"""The only home of pyspark: thin adapters in Spark's camelCase, without decisions.

Importing it on a PySpark that is too old raises `ConfigurationError`. The package is found by
what it lacks and not by its number, which vendors change.
"""

from __future__ import annotations

import sys
from importlib import import_module

import pyspark

from kinesis_source.errors import ConfigurationError

#: Came with 4.2: the limits of a batch and Trigger.AvailableNow, for sources in Python.
_NEEDED = "pyspark.sql.streaming.datasource"

try:
    import_module(_NEEDED)
except ModuleNotFoundError as missing:
    if missing.name != _NEEDED:
        raise
    raise ConfigurationError(
        f"found PySpark {pyspark.__version__} (in {sys.executable}), expected 4.2 or later: older "
        "ones have neither limits for a batch nor Trigger.AvailableNow for sources in Python. "
        "Install pyspark>=4.2 on the driver and on every worker, or choose a runtime of Spark 4.2 "
        "or later"
    ) from None
