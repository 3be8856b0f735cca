"""The files that a deploy uploads: the Lambda packages, the image, and the run specification.

The packages and the image hold only the files that `charts.shipped` lists. Paths are relative to
the repository's root, so that Python packages keep their import paths. The ignore patterns are
Docker's: all files are excluded, then the listed ones included, and CDK skips all other folders.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from aws_cdk import IgnoreMode, aws_ecr_assets, aws_lambda, aws_s3_assets
from constructs import Construct

from charts.run_spec_file import RunSpecFile
from charts.shipped import MEASURING_IMAGE, ROOT

NEVER = ("**/__pycache__", "**/.*")


def function_code(shipped: tuple[str, ...]) -> aws_lambda.Code:
    """Return the package of a Lambda function with the files in `shipped`."""
    return aws_lambda.Code.from_asset(
        str(ROOT), exclude=_all_but(shipped), ignore_mode=IgnoreMode.DOCKER
    )


def measuring_image(scope: Construct, id_: str) -> aws_ecr_assets.DockerImageAsset:
    """Return the measuring Job's image, which the deploy builds and uploads.

    Docker gets only the Dockerfile and the files that `MEASURING_IMAGE` lists.
    """
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
    """Return the run specification as a file that the deploy uploads; its hash is in its S3 key.

    CDK does not parse an asset's content, so text in a prompt is never read as a CDK token.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder, "run-specification.json")
        path.write_bytes(file.data)
        return aws_s3_assets.Asset(scope, id_, path=str(path), asset_hash=file.sha256)


def _all_but(files: tuple[str, ...]) -> list[str]:
    return ["*", *(f"!{file}" for file in files), *NEVER]
