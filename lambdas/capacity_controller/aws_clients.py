"""The AWS clients of the controller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@dataclass(frozen=True, kw_only=True)
class Clients:
    """The boto3 clients with which the controller observes AWS and acts."""

    s3: S3Client
    eks: Any
    autoscaling: Any
    ec2: Any
    scheduler: Any
    sns: Any
