"""`app.py` and `cdk.json`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.synth]
ROOT = Path(__file__).resolve().parents[1]


def run_app(experiment: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The app as the CDK CLI starts it."""
    credentials = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
    environment = {
        **{name: value for name, value in os.environ.items() if name not in credentials},
        "CDK_CONTEXT_JSON": json.dumps({"experiment": experiment}),
        "CDK_OUTDIR": str(folder),
    }
    command = [sys.executable, "app.py"]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_stacks_of_an_experiment_are_synthesized_without_credentials(tmp_path: Path) -> None:
    result = run_app("experiments/qwen3-32b.yaml", tmp_path)
    assert result.returncode == 0, result.stderr
    names = {file.name.removesuffix(".template.json") for file in tmp_path.glob("*.template.json")}
    parts = ("network", "storage", "cluster", "benchmark")
    assert names == {f"draftworth-qwen3-32b-{part}" for part in parts}


def test_wrong_experiment_ends_in_its_problems_and_exit_code_2(tmp_path: Path) -> None:
    text = (ROOT / "experiments/qwen3-32b.yaml").read_text().replace("  lnc: 2", "  lnk: 2")
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    result = run_app(str(file), tmp_path / "out")
    assert result.returncode == 2
    assert f"{file}:" in result.stderr
    assert "did you mean 'lnc'" in result.stderr
    assert "Traceback" not in result.stderr
    assert not list((tmp_path / "out").glob("*.template.json"))


def test_local_experiment_is_refused_with_the_command_that_runs_it(tmp_path: Path) -> None:
    result = run_app("experiments/rehearsal.yaml", tmp_path)
    assert result.returncode == 2
    assert "make rehearse" in result.stderr
    assert "Traceback" not in result.stderr


def test_cdk_json_differs_from_the_librarys_advice_in_three_flags() -> None:
    """Exports, so that no stack goes before its users; log groups that are there before their
    functions (`stacks/constructs/log_groups.py`); no usage data in templates."""
    flags = json.loads((ROOT / "cdk.json").read_text())["context"]
    assert flags["@aws-cdk/core:defaultCrossStackReferences"] == "strong"
    assert flags["@aws-cdk/aws-lambda:useCdkManagedLogGroup"] is False
    assert flags["@aws-cdk/core:enableAdditionalMetadataCollection"] is False


def test_findings_of_cdks_own_validation_are_errors() -> None:
    flags = json.loads((ROOT / "cdk.json").read_text())["context"]
    assert flags["@aws-cdk/core:validateAgainstDefaultRules"] is True
