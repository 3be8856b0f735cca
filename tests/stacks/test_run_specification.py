"""The run specification is uploaded as a file, unchanged, under its hash; one role may read it."""

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from charts.run_spec_file import run_spec_file
from draftworth.measuring.run_specification import RunSpec
from draftworth.records.codec import load_record
from tests.stacks.rendering import collapsed, kubernetes_objects, listed
from tests.stacks.synthesis import (
    SYNTAX,
    Template,
    experiments,
    hostile_case,
    of_type,
    only,
    synthesis,
)

pytestmark = [pytest.mark.synth]
# The experiment whose prompts have text that CloudFormation and CDK would replace in a template.
HOSTILE = "on-demand"
MANIFEST = "Custom::AWSCDK-EKS-KubernetesResource"
BUCKET = "cdk-hnb659fds-assets-${AWS::AccountId}-us-east-2"


@dataclass(frozen=True, kw_only=True)
class Upload:
    """A file of the CDK assembly that a deploy uploads, and its address in S3."""

    bucket: str
    key: str
    packaging: str
    path: Path


def uploads(experiment: str) -> list[Upload]:
    files = json.loads(synthesis().path(experiment, "assets").read_text())["files"].values()
    return [
        Upload(
            bucket=place["bucketName"],
            key=place["objectKey"],
            packaging=file["source"]["packaging"],
            path=synthesis().folder / file["source"]["path"],
        )
        for file in files
        for place in file["destinations"].values()
    ]


def run_spec_upload(experiment: str) -> Upload:
    (upload,) = (u for u in uploads(experiment) if re.fullmatch(r"asset\..*\.json", u.path.name))
    return upload


def job(template: Template) -> dict[str, Any]:
    """Return the measuring Job of a template."""
    manifest = only(template, MANIFEST, "Chartloadgenerator")
    (measuring_job,) = (o for o in kubernetes_objects(manifest) if o["kind"] == "Job")
    return measuring_job


def texts_of_stacks() -> dict[str, str]:
    """Return the text of each file that CloudFormation or the CDK CLI reads, {file name: text}.

    The files are those of the experiment `HOSTILE`.
    """
    prefix = experiments()[HOSTILE].names.prefix
    return {path.name: path.read_text() for path in synthesis().folder.glob(f"{prefix}.*.json")}


def held(text: str) -> list[str]:
    """Return the prompts in a text: as they are, escaped as JSON, or escaped twice."""
    once = [json.dumps(prompt)[1:-1] for prompt in SYNTAX]
    twice = [json.dumps(prompt)[1:-1] for prompt in once]
    forms = zip(SYNTAX, once, twice, strict=True)
    return [form[0] for form in forms if any(written in text for written in form)]


def test_prompts_with_foreign_syntax_arrive_byte_for_byte() -> None:
    file = run_spec_file(experiments()[HOSTILE])
    assert len(file.data) > 2_000_000
    upload = run_spec_upload(HOSTILE)
    assert (upload.bucket, upload.packaging) == (BUCKET, "file")
    assert upload.path.read_bytes() == file.data
    assert load_record(RunSpec, upload.path.read_bytes()).cases == (hostile_case(),)


def test_nothing_of_a_prompt_stands_in_a_template() -> None:
    texts = texts_of_stacks()
    assert len([name for name in texts if name.endswith(".template.json")]) == 1
    assert {name: held(text) for name, text in texts.items() if held(text)} == {}
    assert max(map(len, texts.values())) < 1_000_000


def test_a_prompt_in_a_template_would_be_found() -> None:
    data = run_spec_file(experiments()[HOSTILE]).data.decode()
    assert held(data) == list(SYNTAX)
    assert held(json.dumps({"data": data})) == list(SYNTAX)


@pytest.mark.parametrize("experiment", tuple(experiments()))
def test_the_job_has_the_objects_address_and_hash(experiment: str) -> None:
    """As the hash is in the Job's arguments, other prompts give the Job another name."""
    (container,) = job(synthesis().template(experiment, "benchmark"))["spec"]["template"]["spec"][
        "containers"
    ]
    upload = run_spec_upload(experiment)
    sha256 = hashlib.sha256(upload.path.read_bytes()).hexdigest()
    url = f"s3://{upload.bucket}/{upload.key}"
    assert container["args"][:4] == ["--run-spec", url, "--run-spec-sha256", sha256]


def readers(templates: dict[str, Template]) -> list[tuple[str, str, str]]:
    """Return (name of the template, action, resource) of each right on CDK's assets bucket."""
    rights = []
    for stack, template in templates.items():
        for policy in of_type(template, "AWS::IAM::Policy").values():
            for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
                for resource in listed(collapsed(statement["Resource"])):
                    if resource == "*" or "assets" in resource:
                        actions = listed(statement["Action"])
                        rights += [(stack, action, resource) for action in actions]
    return [line for line in rights if line[1].startswith(("s3:", "*"))]


@pytest.mark.parametrize("experiment", tuple(experiments()))
def test_one_role_may_get_one_object_there_only(experiment: str) -> None:
    stacks = {part: synthesis().template(experiment, part) for part in ("benchmark", "cluster")}
    upload = run_spec_upload(experiment)
    key, place = upload.key, f"arn:aws:s3:::{upload.bucket}/{upload.key}"
    assert readers(stacks) == [("benchmark", "s3:GetObject", place)]
    statements = of_type(stacks["benchmark"], "AWS::IAM::Policy")
    (owner,) = (name for name, policy in statements.items() if key in json.dumps(policy))
    assert owner.startswith("WorkloadRolesllmperf")


def test_a_right_to_other_objects_is_found() -> None:
    statement = {
        "Effect": "Allow",
        "Action": ["s3:GetObject"],
        "Resource": f"arn:aws:s3:::{BUCKET}/*",
    }
    policy = {
        "Type": "AWS::IAM::Policy",
        "Properties": {"PolicyDocument": {"Statement": [statement]}},
    }
    assert readers({"x": {"Resources": {"P": policy}}}) == [
        ("x", "s3:GetObject", f"arn:aws:s3:::{BUCKET}/*")
    ]


def test_every_upload_lies_in_the_experiments_folder() -> None:
    """`make destroy` deletes this folder of the assets bucket, which no other experiment uses."""
    for name, experiment in experiments().items():
        keys = [upload.key for upload in uploads(name)]
        assert len(keys) > 2
        assert all(key.startswith(f"{experiment.names.prefix}/") for key in keys)
