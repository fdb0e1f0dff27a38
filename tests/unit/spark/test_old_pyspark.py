"""What a PySpark older than 4.2 gets; `make test-matrix` asks the real ones."""

from __future__ import annotations

import importlib
import sys
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

import pyspark
import pytest

import kinesis_source.spark
import pyspark_kinesis
from kinesis_source.errors import ConfigurationError

#: None in `sys.modules` makes an import fail as that of a missing module does.
ABSENT = None


def imported_anew() -> ModuleType:
    """`pyspark_kinesis`, beside the one that other tests use."""
    spec = spec_from_file_location("pyspark_kinesis_anew", pyspark_kinesis.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_pyspark_without_read_limits_is_refused_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.datasource", ABSENT)
    monkeypatch.setattr(pyspark, "__version__", "4.1.4")
    found = r"found PySpark 4\.1\.4 .*expected 4\.2 or later.*Install pyspark>=4\.2"
    with pytest.raises(ConfigurationError, match=found):
        importlib.reload(kinesis_source.spark)


def test_a_pyspark_that_is_broken_otherwise_is_not_called_old(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # What the module that is looked for imports itself.
    monkeypatch.delitem(sys.modules, "pyspark.sql.streaming.datasource")
    monkeypatch.setitem(sys.modules, "dataclasses", ABSENT)
    with pytest.raises(ModuleNotFoundError, match="dataclasses"):
        importlib.reload(kinesis_source.spark)


def test_the_package_that_spark_imports_can_be_imported_without_python_data_sources(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PySpark 3.5 has none. Where Spark looks for packages, one that cannot be imported disables
    the look-up of all."""
    monkeypatch.setitem(sys.modules, "pyspark.sql.datasource", ABSENT)
    assert imported_anew().DefaultSource.name() == "kinesis"


def test_importing_that_package_needs_nothing_of_the_connector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("kinesis_source.spark.source", "boto3", "msgspec", "pyarrow"):
        monkeypatch.setitem(sys.modules, name, ABSENT)
    assert imported_anew().DefaultSource.name() == "kinesis"
