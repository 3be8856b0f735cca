"""The cluster's second zone."""

import pytest

from draftworth.experiment.aws import second_zone
from tests.support.experiments import changed_aws, resolved


@pytest.mark.parametrize(
    ("accelerator", "other"),
    [("us-east-2c", "us-east-2a"), ("us-east-2b", "us-east-2a"), ("us-east-2a", "us-east-2b")],
)
def test_second_zone_is_another_one(accelerator: str, other: str) -> None:
    assert second_zone(changed_aws(resolved(), availability_zone=accelerator).spec.aws) == other


def test_second_zone_is_the_files_where_it_names_one() -> None:
    assert second_zone(changed_aws(resolved(), second_zone="us-east-2f").spec.aws) == "us-east-2f"
