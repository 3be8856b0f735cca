"""Python packages of our own, which a real pip installs without a network."""

import zipfile
from pathlib import Path


def make_wheel(folder: Path, name: str, version: str, **contents: bytes) -> None:
    """Make a minimal wheel in the folder. contents: more files, by their paths."""
    info = f"{name}-{version}.dist-info"
    metadata_name = name.replace("_", "-")
    files: dict[str, str | bytes] = {
        f"{name}.py": "",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {metadata_name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[vllm.general_plugins]\nx = y:z\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in {**files, f"{info}/RECORD": record, **contents}.items():
            wheel.writestr(path, text)
