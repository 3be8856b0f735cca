"""Packages of the functions and the image: what `charts.shipped` names, and nothing beside it.

All start from the repository's root, so that packages keep their import paths. Patterns are
Docker's: everything is shut out, then the named files let back in; CDK does not even walk into the
other folders.
"""

from __future__ import annotations

from aws_cdk import IgnoreMode, aws_ecr_assets, aws_lambda
from constructs import Construct

from charts.shipped import MEASURING_IMAGE, ROOT

NEVER = ("**/__pycache__", "**/.*")


def function_code(shipped: tuple[str, ...]) -> aws_lambda.Code:
    """The package of a function."""
    return aws_lambda.Code.from_asset(
        str(ROOT), exclude=_all_but(shipped), ignore_mode=IgnoreMode.DOCKER
    )


def load_generator_image(scope: Construct, id_: str) -> aws_ecr_assets.DockerImageAsset:
    """The load generator's image, built from `MEASURING_IMAGE` and its Dockerfile alone."""
    return aws_ecr_assets.DockerImageAsset(
        scope,
        id_,
        directory=str(ROOT),
        file="pods/llmperf/Dockerfile",
        exclude=_all_but(MEASURING_IMAGE),
        ignore_mode=IgnoreMode.DOCKER,
        platform=aws_ecr_assets.Platform.LINUX_AMD64,
    )


def _all_but(files: tuple[str, ...]) -> list[str]:
    """Ignore patterns that leave only these files and folders."""
    return ["*", *(f"!{file}" for file in files), *NEVER]
