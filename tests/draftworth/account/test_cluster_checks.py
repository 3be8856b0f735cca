"""How a node release is looked up; `test_checks.py` has other checks."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from draftworth.account.checks.cluster_checks import node_image
from tests.draftworth.account import stubs

pytestmark = [pytest.mark.emulator]


def test_a_pinned_release_is_requested_by_image_name() -> None:
    parameter_names: list[str] = []

    def answer(**parameters: str) -> Any:
        parameter_names.append(parameters["Name"])
        return {"Parameter": {"Value": "1.35.10-20261119"}}

    here: Any = SimpleNamespace(get_parameter=answer)
    node_image(dataclasses.replace(stubs.situation(), clients=lambda *_: here))
    images = "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64"
    assert parameter_names == [
        f"{images}/neuron/recommended/release_version",
        f"{images}/neuron/amazon-eks-node-al2023-x86_64-neuron-1.35-v20260625/image_id",
    ]
