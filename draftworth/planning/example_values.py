"""Values of an experiment that are the examples' own, and nobody's."""

from __future__ import annotations

from collections.abc import Iterator

from draftworth.experiment.aws import Aws, CapacityBlock
from draftworth.experiment.strict import EXAMPLE_ACCOUNT, EXAMPLE_RESERVATION


def example_values(aws: Aws) -> Iterator[str]:
    """Keys with a value that was copied from an example: `aws.capacity.reservation_id cr-...`."""
    capacity = aws.capacity
    if isinstance(capacity, CapacityBlock) and capacity.reservation_id == EXAMPLE_RESERVATION:
        yield f"aws.capacity.reservation_id {EXAMPLE_RESERVATION}"
    for arn in aws.admin_principal_arns:
        if f"::{EXAMPLE_ACCOUNT}:" in arn:
            yield f"aws.admin_principal_arns {arn}"
    if (aws.load_generator_image or "").startswith(f"{EXAMPLE_ACCOUNT}."):
        yield f"aws.load_generator_image {aws.load_generator_image}"
