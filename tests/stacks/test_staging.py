"""What the checkpoint stagers may do in AWS, and what they find there."""

import json

import pytest

from charts.checkpoint_stager import MAX_SCRATCH_GIB, OTHER_STORAGE_GIB
from draftworth.records.checkpoints import FAILED_MARKER, PLAN_MARKER, READY_MARKER
from stacks.constructs.nodes import CPU_NODE_DISK
from tests.stacks.rendering import granted_in, may, rights, without
from tests.stacks.synthesis import Template, benchmark, experiments

pytestmark = [pytest.mark.synth]
STAGER = "WorkloadRolesstager"
BUCKET = "${Checkpoints.Arn}"
# The kubelet keeps back 1 GiB and clears pods away from a tenth of the disk on.
IMAGES_GIB = 20


def missing_rights(template: Template, name: str) -> list[str]:
    """What staging takes and the stagers may not."""
    needs = [("s3:ListBucket", BUCKET)]
    for model in experiments()[name].spec.models:
        folder = f"{BUCKET}/{model.storage_prefix}"
        names = (READY_MARKER, PLAN_MARKER, FAILED_MARKER)
        markers = [f"{model.storage_prefix}/{name}" for name in names]
        needs += [("s3:GetObject", f"{BUCKET}/{marker}") for marker in markers]
        needs += [("s3:PutObject", f"{BUCKET}/{marker}") for marker in markers]
        needs += [
            ("s3:GetObject", f"{folder}/tokenizer.json"),
            ("s3:PutObject", f"{folder}/model.safetensors"),
            ("s3:AbortMultipartUpload", f"{folder}/model.safetensors"),
        ]
    granted = granted_in(template)
    return [f"{action} {what}" for action, what in needs if not may(granted, STAGER, action, what)]


@pytest.mark.parametrize("name", tuple(experiments()))
def test_stagers_may_do_what_staging_takes(name: str) -> None:
    assert missing_rights(benchmark(name), name) == []


def test_a_right_that_the_stagers_lack_is_found() -> None:
    assert missing_rights(without(benchmark(), "s3:PutObject", "/Qwen/Qwen3-32B/"), "qwen3-32b")
    assert missing_rights(without(benchmark(), "s3:ListBucket", "Checkpoints"), "qwen3-32b") == [
        f"s3:ListBucket {BUCKET}"
    ]


@pytest.mark.parametrize(
    ("action", "resource"),
    [
        ("s3:PutObject", f"{BUCKET}/acme/other/main/model.safetensors"),
        ("s3:DeleteObject", f"{BUCKET}/Qwen/Qwen3-32B/main/model.safetensors"),
        ("s3:PutObject", "${Results.Arn}/runs/RUN/run.json"),
        ("s3:PutObject", "${Artifacts.Arn}/KEY/UPLOAD/model.pt"),
        ("secretsmanager:GetSecretValue", "any"),
    ],
)
def test_stagers_can_touch_nothing_else(action: str, resource: str) -> None:
    assert not may(granted_in(benchmark()), STAGER, action, resource)


def secret_rights(name: str) -> list[str]:
    return [line for line in rights(benchmark(name)) if "secretsmanager:" in line]


def test_stagers_and_nobody_else_may_read_the_one_secret_that_the_experiment_names() -> None:
    assert secret_rights("qwen3-32b") == []
    (line,) = secret_rights("small-nodes")
    who, action, resource = line.split(" | ")
    assert (who, action) == (STAGER, "secretsmanager:GetSecretValue")
    assert resource.endswith(":secret:draftworth/hub-token-??????")
    assert "*" not in resource


def test_no_template_holds_more_of_the_secret_than_its_name() -> None:
    text = json.dumps(benchmark("small-nodes"))
    assert "draftworth/hub-token" in text
    assert "HF_TOKEN" not in text
    assert "{{resolve:secretsmanager" not in text


def test_two_stagers_fit_onto_the_disk_of_a_cpu_node() -> None:
    pods_gib = 2 * (MAX_SCRATCH_GIB + OTHER_STORAGE_GIB)
    assert pods_gib + IMAGES_GIB < (CPU_NODE_DISK["volume_size"] - 1) * 0.9
