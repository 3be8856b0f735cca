"""What goes into a function or an image: named files of this repository, and nothing beside them.

Both start from the repository's root, so that packages keep their import paths. Patterns are
Docker's: everything is shut out, then the named files let back in; CDK does not even walk into the
other folders.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from aws_cdk import IgnoreMode, aws_ecr_assets, aws_lambda
from constructs import Construct

ROOT = Path(__file__).resolve().parents[1]
NEVER = ("**/__pycache__", "**/.*")

PUBLISHER_HANDLER = "lambdas.metrics_publisher.handler.handler"
PUBLISHER_FILES = (
    "lambdas/__init__.py",
    "lambdas/metrics_publisher",
    "draftworth/__init__.py",
    "draftworth/metrics.py",
    "draftworth/results.py",
)
CAPACITY_HANDLER = "lambdas.capacity_controller.handler.handler"
CAPACITY_FILES = (
    "lambdas/__init__.py",
    "lambdas/capacity_controller",
    "draftworth/__init__.py",
    "draftworth/capacity.py",
    "draftworth/results.py",
    "draftworth/staging.py",
)
LOAD_GENERATOR_DOCKERFILE = "workloads/llmperf/Dockerfile"


def publisher_code() -> aws_lambda.Code:
    """The metrics publisher with the two modules of the domain that it reads results with."""
    return aws_lambda.Code.from_asset(
        str(ROOT), exclude=all_but(PUBLISHER_FILES), ignore_mode=IgnoreMode.DOCKER
    )


def capacity_code() -> aws_lambda.Code:
    """The capacity controller with the modules of the domain that it reads plans and runs with."""
    return aws_lambda.Code.from_asset(
        str(ROOT), exclude=all_but(CAPACITY_FILES), ignore_mode=IgnoreMode.DOCKER
    )


def load_generator_image(scope: Construct, id_: str) -> aws_ecr_assets.DockerImageAsset:
    """The load generator's image. Its build context is what its Dockerfile copies."""
    dockerfile = ROOT / LOAD_GENERATOR_DOCKERFILE
    files = (*copied_files(dockerfile.read_text(encoding="utf-8")), LOAD_GENERATOR_DOCKERFILE)
    return aws_ecr_assets.DockerImageAsset(
        scope,
        id_,
        directory=str(ROOT),
        file=LOAD_GENERATOR_DOCKERFILE,
        exclude=all_but(files),
        ignore_mode=IgnoreMode.DOCKER,
        platform=aws_ecr_assets.Platform.LINUX_AMD64,
    )


def all_but(files: tuple[str, ...]) -> list[str]:
    """Ignore patterns that leave only these files and folders."""
    return ["*", *(f"!{file}" for file in files), *NEVER]


def copied_files(dockerfile: str) -> tuple[str, ...]:
    """What the COPY lines of a Dockerfile take from the build context."""
    copies = (shlex.split(line)[1:] for line in dockerfile.splitlines() if line.startswith("COPY "))
    return tuple(
        argument
        for arguments in copies
        for argument in arguments[:-1]
        if not argument.startswith("--")
    )
