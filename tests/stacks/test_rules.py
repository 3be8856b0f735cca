"""cdk-nag, cfn-lint and CDK's template validation find nothing that is not accepted."""

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
# Ignored rules. W3005: a DependsOn is not needed beside a reference to the same resource, but CDK
# writes both. W3010: a template should not name a zone, but capacity is bought in one zone.
LINT = ("cfn-lint", "--regions", REGION, "--ignore-checks", "W3005,W3010", "--format", "json")


def lint(folder: Path, **templates: Template) -> list[tuple[str, str, str]]:
    """Return cfn-lint's findings, warnings included, as (template's name, rule, message).

    folder: for the templates as files. templates: {name: template}.
    """
    paths = [folder / f"{name}.json" for name in templates]
    for path, template in zip(paths, templates.values(), strict=True):
        path.write_text(json.dumps(template))
    command = [*LINT, "-t", *map(str, paths)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    findings = json.loads(result.stdout or "[]")
    return [(Path(f["Filename"]).stem, f["Rule"]["Id"], f["Message"]) for f in findings]


def every_kind_of_resource() -> Template:
    """Return one template with a resource of each kind that is in any experiment's template.

    It has one experiment's resources, and those of others that differ in more than names. To lint
    all templates would take seconds for each.
    """
    whole: Template = {"Resources": {}}
    covered_kinds: set[tuple[str, ...]] = set()
    # The experiment that pins versions of add-ons is the first: its add-ons differ from those of
    # the others, and cfn-lint reports an add-on that is there twice.
    for name in sorted(experiments(), key=lambda name: name != "small-nodes"):
        template = json.loads(synthesis().path(name).read_text())
        for logical_id, resource in template.pop("Resources").items():
            new = {*kinds(resource, resource["Type"])} - covered_kinds
            if logical_id not in whole["Resources"]:
                whole["Resources"][logical_id] = resource
            elif new:
                whole["Resources"][f"{logical_id}{len(covered_kinds)}"] = resource
            covered_kinds |= new
        whole = template | whole
    return whole


def test_no_validator_finds_anything_unaccepted() -> None:
    assert synthesis().findings() == []


def test_acceptances_name_findings_that_exist() -> None:
    """An acceptance without a finding would hide the next finding of its kind."""
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
    findings = " ".join(findings_in(validated(app, tmp_path)))
    assert "AwsSolutions-S10" in findings
    assert "CloudFormation Validate" in findings


def test_cfn_lint_finds_only_the_wrong_template(tmp_path: Path) -> None:
    """cfn-lint also reports an instance type that is newer than its list of types."""
    queue = {"Type": "AWS::SQS::Queue", "Properties": {"VisibilityTimeout": "soon"}}
    wrong: Template = {"Resources": {"Queue": queue}}
    findings = lint(tmp_path, alarm=alarm(), ours=every_kind_of_resource(), wrong=wrong)
    newer = ("ours", "E3628", "'trn2.3xlarge'")
    summaries = [(name, rule, text.partition(" is not")[0]) for name, rule, text in findings]
    assert [each for each in summaries if each != newer] == [("wrong", "E3012", "'soon'")]
