"""checkov and cfn-lint report nothing of shipped experiments that is not accepted with a reason."""

import json
from collections.abc import Sequence
from pathlib import Path

import aws_cdk as cdk
import pytest

from stacks.application import build_application
from tests.stacks.synthesis import SYNTHESIZED_AT, cdk_context
from tests.stacks.template_scanners import (
    CHECKOV,
    Acceptance,
    Finding,
    accepted,
    cfn_lint,
    checkov,
    unaccepted,
    unused,
)
from tests.support.experiments import resolved
from tests.support.shared import shared_folder

# The first deploy of operations.md, and the published pair.
EXPERIMENTS = ("smoke", "qwen3-32b")
QUEUE = Finding(template="a", rule="W1", resource="AWS::SQS::Queue.Results", message="no key")
ACCEPTANCE = Acceptance(rule="W1", resources=("AWS::SQS::Queue.*",), says="no key", reason="-")

needs_checkov = [
    pytest.mark.checkov,
    pytest.mark.skipif(not CHECKOV, reason="DRAFTWORTH_CHECKOV names no program"),
]


def templates() -> Sequence[Path]:
    """Return the synthesized templates of `EXPERIMENTS`."""
    folder = shared_folder("scanned", _synthesize)
    return [folder / f"{resolved(name).names.stack}.template.json" for name in EXPERIMENTS]


def _synthesize(folder: Path) -> None:
    app = cdk.App(context=cdk_context(), outdir=str(folder), analytics_reporting=False)
    for name in EXPERIMENTS:
        build_application(app, experiment=resolved(name), now=SYNTHESIZED_AT)
    app.synth()


@pytest.mark.parametrize("tool", ["checkov", "cfn-lint"])
def test_every_acceptance_gives_a_reason(tool: str) -> None:
    rules = [acceptance.rule for acceptance in accepted(tool)]
    assert rules
    assert len(set(rules)) == len(rules)
    assert all(len(acceptance.reason) > 40 for acceptance in accepted(tool))


def test_an_accepted_finding_is_not_reported() -> None:
    assert unaccepted([QUEUE], [ACCEPTANCE]) == []
    assert unused([QUEUE], [ACCEPTANCE]) == []


@pytest.mark.parametrize(
    "change",
    [{"rule": "W2"}, {"resource": "AWS::SNS::Topic.Results"}, {"message": "no policy"}],
    ids=["rule", "resource", "message"],
)
def test_a_finding_outside_the_list_is_reported(change: dict[str, str]) -> None:
    other = Finding(**({**vars(QUEUE), **change}))
    assert unaccepted([QUEUE, other], [ACCEPTANCE]) == [other]


def test_an_acceptance_without_a_finding_is_reported() -> None:
    two = ACCEPTANCE.model_copy(update={"resources": ("AWS::SQS::Queue.*", "AWS::SNS::Topic.*")})
    assert unused([QUEUE], [two]) == ["W1: AWS::SNS::Topic.*"]
    assert unused([], [ACCEPTANCE]) == ["W1: AWS::SQS::Queue.*"]


class TestTools:
    pytestmark = needs_checkov

    def test_checkov_reports_only_the_careless_template(self, tmp_path: Path) -> None:
        bucket = {"Type": "AWS::S3::Bucket", "Properties": {"AccessControl": "PublicRead"}}
        path, careless = tmp_path / "careless.json", {"Resources": {"Public": bucket}}
        path.write_text(json.dumps(careless))
        findings, acceptances = checkov([*templates(), path]), accepted("checkov")
        ours = [finding for finding in findings if finding.template != path.stem]
        assert unaccepted(ours, acceptances) == []
        assert unused(ours, acceptances) == []
        reported = {finding.rule for finding in unaccepted(findings, acceptances)}
        assert "CKV_AWS_20" in reported  # readable by everybody

    def test_cfn_lint_reports_nothing_unaccepted(self) -> None:
        assert unaccepted(cfn_lint(templates()), accepted("cfn-lint")) == []
