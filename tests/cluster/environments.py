"""`python -m tests.cluster.environments FOLDER`: what `make cluster` needs besides the tests' own
environment, made by the commands of docs/clusters.md.

`job/`     PySpark, the package and what it needs: the image of every machine
`packed/`, `environment.tar.gz`: the same without PySpark, and packed
`dependencies/`, `kinesis.zip`: what the package needs, and the package as one file
`client/`  Spark Connect's thin client: neither the package nor a JVM
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.cluster.page import blocks, filled
from tests.spark.drivers import ROOT


def make(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    installed = blocks("docs/clusters.md", "Installed on every machine")[0]
    _run(filled(installed, {"python3 ": f"{sys.executable} ", "/opt/job": str(folder / "job")}))
    _run(f"{folder}/job/bin/pip install 'pyspark[connect]' 'pandas<3'")
    packed = {
        "python3 -m venv packed": f"{sys.executable} -m venv {folder}/packed",
        "packed/bin": f"{folder}/packed/bin",
        "--prefix packed": f"--force --quiet --prefix {folder}/packed",
        "--output ": f"--output {folder}/",
    }
    _run(filled(blocks("docs/clusters.md", "A packed environment")[0], packed))
    zipped = blocks("docs/clusters.md", "One file")[0]
    shutil.rmtree(folder / "dist", ignore_errors=True)
    _run(filled(zipped, {" dist": f" {folder}/dist", " kinesis.zip": f" {folder}/kinesis.zip"}))
    client = folder / "client"
    _run(f"{sys.executable} -m venv {client}")
    _run(f"{client}/bin/pip install 'pyspark-client>=4.2,<5' 'pandas<3'")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [f"'{name}'" for name in project["dependencies"] if not name.startswith("pyspark")]
    _run(f"{sys.executable} -m venv {folder}/dependencies")
    _run(f"{folder}/dependencies/bin/pip install {' '.join(needed)}")


def _run(commands: str) -> None:
    environment = os.environ | {
        "PIP_CONSTRAINT": str(ROOT / "constraints.txt"),
        "PIP_QUIET": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    subprocess.run(["bash", "-ec", commands], cwd=ROOT, env=environment, check=True)


if __name__ == "__main__":
    make(Path(sys.argv[1]).absolute())
