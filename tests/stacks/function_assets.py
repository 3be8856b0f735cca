"""What is in a function's package, and that it works from there alone."""

import json
import os
import subprocess
import sys

from charts.shipped import source_files
from tests.stacks.synthesis import synthesis

# What a function may load besides its own package: the standard library and Lambda's boto3.
_HEAVY = ("pydantic", "yaml", "aws_cdk", "cdk8s", "moto")


def check_function_asset(function: str, shipped: tuple[str, ...]) -> None:
    """One asset holds exactly what ships, and its handler loads from there."""
    assets = json.loads(synthesis().path("qwen3-32b", "assets").read_text())
    folders = [
        synthesis().folder / asset["source"]["path"]
        for asset in assets["files"].values()
        if asset["source"]["packaging"] == "zip"
    ]
    (folder,) = (f for f in folders if (f / "lambdas" / function).is_dir())
    files = {
        p.relative_to(folder).as_posix()
        for p in folder.rglob("*")
        if p.is_file() and p.suffix != ".pyc"
    }
    assert files == set(source_files(shipped))
    assert _loaded(folder, function) == "handler []"


def _loaded(folder: os.PathLike[str], function: str) -> str:
    program = (
        f"import sys, lambdas.{function}.handler as m; "
        f"print(m.handler.__name__, sorted(set({_HEAVY}) & set(sys.modules)))"
    )
    # -P: the tests' own folder is not searched, so that only the asset can be what is imported.
    command = [sys.executable, "-P", "-B", "-c", program]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    result = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=True
    )
    return result.stdout.strip()
