"""The program of an exported pod's init container finds the winner's compiled graphs for vLLM.

`find_graphs ARTIFACTS KEY TARGET link|copy`. ARTIFACTS is the mounted artifacts bucket, and KEY the
winner's artifact key. The key's manifest in the bucket names the folder of the graphs, which is not
known until the pod runs. `link`: the engine reads them in place; `copy`: it needs them in a cache
that it can write to. This file imports no other module of draftworth, because only its text is
copied into the pod's spec. It runs on Python 3.10 and later.
"""

import json
import shutil
import sys
from pathlib import Path


def find_graphs(artifacts: Path, key: str, target: Path, *, copy: bool) -> None:
    """Link or copy the graphs of an artifact key to `target`; exit if a graph is missing."""
    manifest = artifacts / key / "_ARTIFACTS.json"
    if not manifest.is_file():
        sys.exit(
            f"{manifest}: not there: the bucket has no compiled graphs of this key; next: copy the "
            f"folder {key}/ of the experiment's artifacts bucket into this one (aws s3 sync)"
        )
    content = json.loads(manifest.read_text(encoding="utf-8"))
    graphs = artifacts / content["folder"]
    for file in content["files"]:
        path = graphs / file["path"]
        if not path.is_file() or path.stat().st_size != file["size_bytes"]:
            sys.exit(f"{path}: not there as {manifest} lists it; next: copy the folder {key}/ anew")
    if target.is_symlink():
        target.unlink()
    elif target.is_dir():
        shutil.rmtree(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    if copy:
        shutil.copytree(graphs, target)
    else:
        target.symlink_to(graphs)


if __name__ == "__main__":
    artifacts_given, key_given, target_given, way = sys.argv[1:]
    find_graphs(Path(artifacts_given), key_given, Path(target_given), copy=way == "copy")
