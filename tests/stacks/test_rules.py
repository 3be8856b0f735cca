"""cdk-nag, cfn-lint and CDK's own template validation find nothing that is not meant."""

import json
import subprocess
from pathlib import Path

import aws_cdk as cdk
import pytest
from aws_cdk import aws_s3

from tests.charts.rendering import kinds
from tests.charts.winner.alarms import template as alarm
from tests.stacks.synthesis import (
    Template,
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


def lint(folder: Path, **templates: Template) -> list[tuple[str, str, str]]:
    """Template, rule and message of all that cfn-lint finds, warnings included."""
    paths = [folder / f"{name}.json" for name in templates]
    for path, template in zip(paths, templates.values(), strict=True):
        path.write_text(json.dumps(template))
    command = [*LINT, "-t", *map(str, paths)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    found = json.loads(result.stdout or "[]")
    return [(Path(f["Filename"]).stem, f["Rule"]["Id"], f["Message"]) for f in found]


def every_kind_of_resource() -> Template:
    """One experiment's template, and what others have beside it or in another way.

    cfn-lint takes seconds for each template, and most of their resources differ in names alone.
    """
    whole: Template = {"Resources": {}}
    known: set[tuple[str, ...]] = set()
    # First the one with versions of add-ons: an add-on that is there twice is an error.
    for name in sorted(experiments(), key=lambda name: name != "small-nodes"):
        template = json.loads(synthesis().path(name).read_text())
        for logical_id, resource in template.pop("Resources").items():
            new = {*kinds(resource, resource["Type"])} - known
            if logical_id not in whole["Resources"]:
                whole["Resources"][logical_id] = resource
            elif new:
                whole["Resources"][f"{logical_id}{len(known)}"] = resource
            known |= new
        whole = template | whole
    return whole


def test_no_validator_finds_anything_unaccepted() -> None:
    assert synthesis().findings() == []


def test_acceptances_name_findings_that_exist() -> None:
    """An acceptance that nothing needs any more would hide the next finding of its kind."""
    assert synthesis().unused_acceptances() == []


def test_every_acceptance_gives_a_reason() -> None:
    reasons = synthesis().acceptances().values()
    assert reasons
    assert all(len(reason) > 40 for reason in reasons)


def test_validators_find_missing_tls_and_a_broken_schema(tmp_path: Path) -> None:
    app = cdk.App(context=cdk_context(), outdir=str(tmp_path), analytics_reporting=False)
    stack, properties = cdk.Stack(app, "careless"), {"VisibilityTimeout": "soon"}
    aws_s3.Bucket(stack, "Bucket")
    cdk.CfnResource(stack, "Queue", type="AWS::SQS::Queue", properties=properties)
    found = " ".join(findings_in(validated(app, tmp_path)))
    assert "AwsSolutions-S10" in found
    assert "CloudFormation Validate" in found


def test_cfn_lint_finds_only_the_wrong_template(tmp_path: Path) -> None:
    """But for an instance type that is newer than its list of them."""
    queue = {"Type": "AWS::SQS::Queue", "Properties": {"VisibilityTimeout": "soon"}}
    wrong: Template = {"Resources": {"Queue": queue}}
    found = lint(tmp_path, alarm=alarm(), ours=every_kind_of_resource(), wrong=wrong)
    newer = ("ours", "E3628", "'trn2.3xlarge'")
    shown = [(name, rule, text.partition(" is not")[0]) for name, rule, text in found]
    assert [each for each in shown if each != newer] == [("wrong", "E3012", "'soon'")]
