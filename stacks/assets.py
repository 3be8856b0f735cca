"""What a deploy uploads: packages of the functions, the image, and the run specification.

Packages and image hold what `charts.shipped` names, and nothing beside it. All start from the
repository's root, so that packages keep their import paths. Patterns are Docker's: everything is
shut out, then the named files let back in; CDK does not even walk into the other folders.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from aws_cdk import IgnoreMode, aws_ecr_assets, aws_lambda, aws_s3_assets
from constructs import Construct

from charts.measuring import RunSpecFile
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
        file="pods/measuring/Dockerfile",
        exclude=_all_but(MEASURING_IMAGE),
        ignore_mode=IgnoreMode.DOCKER,
        platform=aws_ecr_assets.Platform.LINUX_AMD64,
    )


def run_spec_asset(scope: Construct, id_: str, file: RunSpecFile) -> aws_s3_assets.Asset:
    """The run specification as a file, which the deploy uploads under a key made of its hash.

    From disk, byte for byte: CDK does not look into it, so nothing in a prompt is a token to it.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder, "run-specification.json")
        path.write_bytes(file.data)
        return aws_s3_assets.Asset(scope, id_, path=str(path), asset_hash=file.sha256)


def _all_but(files: tuple[str, ...]) -> list[str]:
    """Ignore patterns that leave only these files and folders."""
    return ["*", *(f"!{file}" for file in files), *NEVER]
