"""A pytest plugin for the process in which the Python blocks run: `-p tests.docs.python_session`.

One Spark for all of them, as a user's own `conftest.py` has it. A local stream and a local DynamoDB
are in the environment (`AWS_ENDPOINT_URL_…`, keys, region), so a block that names none of that runs
as it stands.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kinesis_source.testing import LocalKinesis
from tests.docs.blocks import ROOT
from tests.docs.scripts import ACCOUNT, REGION, Scripts
from tests.support.dynamodb import local_dynamodb

SETTINGS = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@pytest.fixture(scope="session")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scripts]:
    """Holds the stream that the environment of Spark names."""
    folder = tmp_path_factory.mktemp("scripts")
    with (
        LocalKinesis(region=REGION, account=ACCOUNT) as kinesis,
        local_dynamodb() as dynamodb,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name in [n for n in os.environ if n.startswith("AWS_")]:
            patch.delenv(name)
        environment = {
            "AWS_ENDPOINT_URL_KINESIS": kinesis.endpoint_url,
            "AWS_ENDPOINT_URL_DYNAMODB": dynamodb.url,
            "AWS_ENDPOINT_URL_STS": dynamodb.url,
            "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "SECRETEXAMPLE",
            "AWS_DEFAULT_REGION": REGION,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_HOSTNAME": "localhost",
        }
        for name, value in environment.items():
            patch.setenv(name, value)
        made = Scripts(folder, kinesis, dynamodb)
        yield made
        Path(os.environ["PROGRESS_FILE"]).write_text(made.last_progress)


@pytest.fixture(scope="session")
def spark(scripts: Scripts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    builder = SparkSession.builder.master("local[2]")
    settings = SETTINGS | {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
