"""`app.py` and `cdk.json`."""

import functools
import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.cloud_assembly_schema import Manifest

import app
from app import check_cli, named_experiment, synthesize
from draftworth.cli import main
from draftworth.errors import UserInputError
from tests.support.experiments import both, drop, put, write_experiment

pytestmark = [pytest.mark.synth]
ROOT = Path(__file__).resolve().parents[1]


def shipped_context() -> dict[str, Any]:
    context: dict[str, Any] = json.loads((ROOT / "cdk.json").read_text())["context"]
    return context


def test_a_wrong_experiment_exits_with_2_and_problems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_experiment(tmp_path, put("serving", "lnk", value=2))
    context = {**shipped_context(), "experiment": str(file)}
    monkeypatch.setattr(cdk, "App", functools.partial(cdk.App, context=context))
    assert app.main() == 2
    errors = capsys.readouterr().err
    assert f"{file}:" in errors
    assert "did you mean 'lnc'" in errors


def test_a_cli_too_old_learns_which_one_fits() -> None:
    """What npm's `latest` says of itself."""
    versions = {"CDK_CLI_ASM_VERSION": "43.0.0", "CDK_CLI_VERSION": "3.0.0"}
    with pytest.raises(UserInputError) as refused:
        check_cli(versions)
    assert refused.value.exit_code == 2
    assert "CDK command line 3.0.0" in str(refused.value)
    assert "aws-cdk 2.1148.1" in str(refused.value)


def test_a_cli_of_todays_or_later_schema_passes() -> None:
    for version in (Manifest.version(), "99.0.0", ""):
        check_cli({"CDK_CLI_ASM_VERSION": version})


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"experiments": "x.yaml"}, "-c experiments=...: an unknown key; did you mean"),
        ({"Experiment": "x.yaml"}, "-c Experiment=...: an unknown key; did you mean"),
        ({"neuron_chart": "x"}, "-c neuron_chart=...: an unknown key; did you mean"),
        ({"experiment": ""}, "-c experiment=: no file is named"),
    ],
)
def test_a_misspelt_context_key_selects_no_other_experiment(
    context: dict[str, str], message: str
) -> None:
    with pytest.raises(UserInputError, match=re.escape(message)):
        named_experiment({"@aws-cdk/core:some": True, **context})


def test_the_experiment_that_nobody_named_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert named_experiment({"@aws-cdk/core:some": True}) == "experiments/qwen3-32b.yaml"
    assert "no -c experiment=FILE is given" in capsys.readouterr().err
    assert named_experiment({"experiment": "mine.yaml"}) == "mine.yaml"
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("program", ["app.py", "draftworth"])
def test_a_python_without_libraries_learns_what_to_install(program: str) -> None:
    """`cdk.json` starts the `python3` of the PATH, whatever that is."""
    command = [sys.executable, "-I", "-S", str(ROOT / program)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert sys.executable in done.stderr
    assert "pip install -r requirements.txt" in done.stderr
    assert "Traceback" not in done.stderr


# As the CDK CLI 2.1148.1 starts the app: it reads the report itself, and stops at errors in it for
# `synth` and `deploy`, but not for `destroy`.
REPORTED: dict[str, Any] = {"@aws-cdk/core:failSynthOnValidationErrors": False}
LLAMA = ROOT / "experiments/llama-3.1-8b-eagle3.yaml"
PRICE_KEY = "draftworth:price:type=trn2.48xlarge:zone=us-east-2c:capacity=spot"


def synthesized(file: Path, folder: Path, **looked_up: Any) -> Path:
    """The app of an experiment in this process; the folder that it wrote.

    CDK's own validation of templates is off, because it takes seconds; test_rules.py is about it.
    """
    context = {**shipped_context(), **REPORTED, **looked_up, "experiment": str(file)}
    out = folder / "out"
    app_of_cdk = cdk.App(
        context=context,
        outdir=str(out),
        analytics_reporting=False,
        builtin_cloud_formation_validation=False,
    )
    synthesize(app_of_cdk)
    return out


def test_a_local_experiment_is_refused_with_its_command(tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match="make rehearse"):
        synthesized(ROOT / "experiments/rehearsal.yaml", tmp_path)


def test_another_driver_chart_is_refused(tmp_path: Path) -> None:
    chart = tmp_path / "neuron-helm-chart"
    chart.mkdir()
    (chart / "Chart.yaml").write_text("name: neuron-helm-chart\nversion: 1.9.0\n")
    for chart_folder, message in (
        (chart, "given neuron-helm-chart 1.9.0,"),
        (tmp_path, "FileNotFound"),
    ):
        with pytest.raises(UserInputError, match=f"{message}.*1.10.0.*helm pull oci://public.ecr"):
            synthesized(LLAMA, tmp_path, **{"neuron-chart": str(chart_folder)})


def report(folder: Path) -> str:
    return (folder / "validation-report.json").read_text()


def templates(folder: Path) -> str:
    texts = (file.read_text() for file in sorted(folder.glob("*.template.json")))
    return "".join(texts).replace(" ", "")


def test_without_a_price_only_a_deploy_is_refused(tmp_path: Path) -> None:
    file = write_experiment(tmp_path, drop("aws", "price"))
    folder = synthesized(file, tmp_path)
    assert f"draftworth price {file}" in report(folder)
    # Budget 80: who deploys it all the same has a guard that ends the run at its first look.
    assert '\\"price_usd_per_node_hour\\":288000.0' in templates(folder)


def warnings(folder: Path) -> list[str]:
    """What the app warns of: the CDK CLI prints the report, and only `--strict` stops at these.

    Without anything to report, CDK writes no report.
    """
    if not (folder / "validation-report.json").exists():
        return []
    plugins = json.loads(report(folder))["pluginReports"]
    violations = [v for p in plugins for v in p["violations"] if v["severity"] == "warning"]
    return [violation["description"] for violation in violations]


def noted(file: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What `plan` notes of an experiment."""
    capsys.readouterr()
    assert main(["plan", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    return [text.removeprefix("note: ") for text in lines if text.startswith("note: ")]


@pytest.fixture(scope="module")
def with_copied_chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the app of `LLAMA` wrote, with a copy of the pinned driver chart."""
    folder = tmp_path_factory.mktemp("copied")
    chart = folder / "neuron-helm-chart"
    chart.mkdir()
    (chart / "Chart.yaml").write_text("name: neuron-helm-chart\nversion: 1.10.0\n")
    return synthesized(LLAMA, folder, **{"neuron-chart": str(chart)})


def test_a_copied_driver_chart_is_an_asset(with_copied_chart: Path) -> None:
    text = templates(with_copied_chart)
    assert '"ChartAssetURL":' in text
    assert "oci://" not in text


def test_what_plan_notes_is_a_synthesis_warning(
    with_copied_chart: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    warned = warnings(with_copied_chart)
    assert any("is gated and aws.hub_token_secret names no secret" in w for w in warned)
    assert warned == noted(LLAMA, capsys)


def test_an_experiment_without_notes_gives_no_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commit = put("target", "revision", value="a" * 40)
    draft = put("variants", 1, "draft", "revision", value="b" * 40)
    admin = put("aws", "admin_principal_arns", value=["arn:aws:iam::123456789012:role/Admin"])
    cidrs = put("aws", "public_access_cidrs", value=["52.94.76.1/32"])
    bought = put("aws", "capacity", value={"kind": "on_demand"})
    price = put("aws", "price", "as_of", value=datetime.now(UTC).date())
    budget = put("aws", "accelerator_budget_usd", value=1000.0)
    deadline = put("aws", "deadline_minutes", value=600)
    unforced = put("workload", "fixed_output_length", value=False)
    edits = both(commit, draft, admin, cidrs, bought, price, budget, deadline, unforced)
    file = write_experiment(tmp_path, edits)
    assert noted(file, capsys) == []
    assert warnings(synthesized(file, tmp_path)) == []


def test_with_a_looked_up_price_nothing_is_refused(tmp_path: Path) -> None:
    file = write_experiment(tmp_path, drop("aws", "price"))
    price = {"usd_per_hour": 15.09, "as_of": "2026-11-20", "source": "EC2 Spot price history"}
    folder = synthesized(file, tmp_path, **{PRICE_KEY: price})
    assert "none has been looked up" not in report(folder)
    assert '\\"price_usd_per_node_hour\\":15.09' in templates(folder)


def test_cdk_json_differs_from_advice_in_three_flags() -> None:
    """Exports, should there be a second stack again; log groups that are there before their
    functions (`stacks/constructs/functions.py`); no usage data in templates."""
    flags = shipped_context()
    assert flags["@aws-cdk/core:defaultCrossStackReferences"] == "strong"
    assert flags["@aws-cdk/aws-lambda:useCdkManagedLogGroup"] is False
    assert flags["@aws-cdk/core:enableAdditionalMetadataCollection"] is False
    assert flags["@aws-cdk/core:validateAgainstDefaultRules"] is True
