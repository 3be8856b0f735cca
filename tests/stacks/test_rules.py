"""cdk-nag, cfn-lint and CDK's own template validation find nothing that is not meant."""

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_s3

from tests.stacks.synthesis import (
    cdk_context,
    experiments,
    findings_in,
    synthesis,
    validated,
)

pytestmark = [pytest.mark.synth]
REGION = "us-east-2"
# W3005: CDK writes DependsOn beside references that say the same. W3010: the zone is the
# experiment's, because capacity is bought in one zone.
LINT = ("cfn-lint", "--regions", REGION, "--ignore-checks", "W3005,W3010", "--format", "json")


def lint(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """What cfn-lint finds, warnings included."""
    command = [*LINT, "-t", *map(str, paths)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    found: list[dict[str, Any]] = json.loads(result.stdout or "[]")
    return found


def test_no_validator_finds_anything_unaccepted() -> None:
    assert synthesis().findings() == []


def test_acceptances_name_findings_that_exist() -> None:
    """An acceptance that nothing needs any more would hide the next finding of its kind."""
    assert synthesis().unused_acceptances() == []


def test_every_acceptance_gives_a_reason() -> None:
    reasons = synthesis().acceptances().values()
    assert reasons
    assert all(len(reason) > 40 for reason in reasons)


def test_a_bucket_without_tls_is_found(tmp_path: Path) -> None:
    app = cdk.App(context=cdk_context(), outdir=str(tmp_path), analytics_reporting=False)
    aws_s3.Bucket(cdk.Stack(app, "careless"), "Bucket")
    assert "AwsSolutions-S10" in " ".join(findings_in(validated(app, tmp_path)))


def test_a_template_against_the_schema_is_found(tmp_path: Path) -> None:
    app = cdk.App(context=cdk_context(), outdir=str(tmp_path), analytics_reporting=False)
    properties = {"VisibilityTimeout": "soon"}
    cdk.CfnResource(cdk.Stack(app, "wrong"), "Queue", type="AWS::SQS::Queue", properties=properties)
    assert "CloudFormation Validate" in " ".join(findings_in(validated(app, tmp_path)))


def test_cfn_lint_finds_nothing_in_any_template() -> None:
    """But for an instance type that is newer than its list of them."""
    paths = [synthesis().path(name) for name in experiments()]
    found = [(f["Rule"]["Id"], f["Message"].partition(" is not one of")[0]) for f in lint(paths)]
    assert found == [("E3628", "'trn2.3xlarge'")]


def test_cfn_lint_finds_a_wrong_template(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.template.json"
    resource = {"Type": "AWS::SQS::Queue", "Properties": {"VisibilityTimeout": "soon"}}
    wrong.write_text(json.dumps({"Resources": {"Queue": resource}}))
    assert [finding["Rule"]["Id"] for finding in lint([wrong])] == ["E3012"]
