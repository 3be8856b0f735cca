"""The checkpoint stagers: their right to read the secret, and the disk that they find on a node."""

import json

import pytest

from charts.checkpoint_staging import MAX_SCRATCH_GIB, OTHER_STORAGE_GIB
from stacks.constructs.nodes import CPU_NODE_DISK
from tests.stacks.rendering import rights
from tests.stacks.synthesis import benchmark

pytestmark = [pytest.mark.synth]
STAGER = "WorkloadRolesstager"
# Disk for images. Of the disk kubelet also reserves 1 GiB, and it evicts pods when less than a
# tenth of the disk is free.
IMAGES_GIB = 20


def secret_rights(name: str) -> list[str]:
    return [line for line in rights(benchmark(name)) if "secretsmanager:" in line]


def test_only_stagers_read_the_secret_the_experiment_names() -> None:
    assert secret_rights("qwen3-32b") == []
    (line,) = secret_rights("small-nodes")
    who, action, resource = line.split(" | ")
    assert (who, action) == (STAGER, "secretsmanager:GetSecretValue")
    assert resource.endswith(":secret:draftworth/hub-token-??????")
    assert "*" not in resource


def test_templates_hold_only_the_name_of_the_secret() -> None:
    text = json.dumps(benchmark("small-nodes"))
    assert "draftworth/hub-token" in text
    assert "HF_TOKEN" not in text
    assert "{{resolve:secretsmanager" not in text


def test_two_stagers_fit_on_a_cpu_nodes_disk() -> None:
    pods_gib = 2 * (MAX_SCRATCH_GIB + OTHER_STORAGE_GIB)
    assert pods_gib + IMAGES_GIB < (CPU_NODE_DISK["volume_size"] - 1) * 0.9
