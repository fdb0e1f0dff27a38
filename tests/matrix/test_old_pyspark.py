"""What the PySparks before 4.2 answer, with the package forced in."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.spark.drivers import ROOT, SMALL_SPARK, environment

pytestmark = pytest.mark.matrix

LOAD = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").getOrCreate()
spark.readStream.format("kinesis").option("streamName", "orders").load()
"""
FOUND_OLD = r"ConfigurationError: found PySpark {version}\S* .*expected 4\.2 or later.*Install"


def answer(version: str, code: str) -> str:
    """The end of what Python with that PySpark prints."""
    python = Path(os.environ["MATRIX"]) / version / "bin" / "python"
    conf = " ".join(f"--conf {name}={value}" for name, value in SMALL_SPARK.items())
    env = environment(
        ROOT,
        PYSPARK_PYTHON=str(python),
        PYSPARK_DRIVER_PYTHON=str(python),
        PYSPARK_SUBMIT_ARGS=f"{conf} pyspark-shell",
    )
    done = subprocess.run([python, "-c", code], env=env, capture_output=True, text=True)
    return done.stdout + done.stderr


@pytest.mark.parametrize("version", ["4.0", "4.1"])
def test_load_says_what_was_found_and_what_to_do(version: str) -> None:
    assert_matches(FOUND_OLD.format(version=version), answer(version, LOAD))


def test_before_python_sources_spark_knows_nothing_of_the_package() -> None:
    assert_matches("Failed to find the data source: kinesis", answer("3.5", LOAD))


@pytest.mark.parametrize("version", ["3.5", "4.0", "4.1"])
def test_the_package_that_spark_imports_is_never_what_breaks(version: str) -> None:
    """It would take every other package's sources with it."""
    imported = "import pyspark_kinesis; print(pyspark_kinesis.DefaultSource.name())"
    assert answer(version, imported) == "kinesis\n"


@pytest.mark.parametrize("version", ["3.5", "4.0", "4.1"])
def test_the_connector_itself_says_so_when_imported(version: str) -> None:
    found = answer(version, "import kinesis_source.spark.source")
    assert_matches(FOUND_OLD.format(version=version), found)


def assert_matches(pattern: str, text: str) -> None:
    assert re.search(pattern, text), text[-2000:]
