"""The files that a deploy uploads: packages of the functions, the image, and the run specification.

Packages and image hold the files of `charts.shipped` and no others. All paths start from the
repository's root, so that packages keep their import paths. The patterns are Docker's: everything
is excluded, then the named files are included again, and CDK does not even walk into other folders.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from aws_cdk import IgnoreMode, aws_ecr_assets, aws_lambda, aws_s3_assets
from constructs import Construct

from charts.measuring import RunSpecFile
from charts.shipped import MEASURING_IMAGE, ROOT

NEVER = ("**/__pycache__", "**/.*")


def function_code(shipped: tuple[str, ...]) -> aws_lambda.Code:
    """Return the package of a function."""
    return aws_lambda.Code.from_asset(
        str(ROOT), exclude=_all_but(shipped), ignore_mode=IgnoreMode.DOCKER
    )


def measuring_image(scope: Construct, id_: str) -> aws_ecr_assets.DockerImageAsset:
    """Return the measuring Job's image, built from `MEASURING_IMAGE` and its Dockerfile alone."""
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
    """Return the run specification as a file, uploaded by the deploy under a key with its hash.

    CDK does not look into a file, so nothing in a prompt becomes a token.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder, "run-specification.json")
        path.write_bytes(file.data)
        return aws_s3_assets.Asset(scope, id_, path=str(path), asset_hash=file.sha256)


def _all_but(files: tuple[str, ...]) -> list[str]:
    return ["*", *(f"!{file}" for file in files), *NEVER]
