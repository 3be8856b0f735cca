"""Makes a compiled graph, as a server leaves it, for the tests of its upload."""

import time
from pathlib import Path

from pods.compiled_graphs.scratch_records import StartRecord, write_record
from tests.pods.compiled_graphs import pods

PART_BYTES = 1000
# The first file is so large that it is uploaded in two parts.
GRAPH_FILES = {"model.pt": b"g" * (PART_BYTES + 1), "weights/tp0": b"w"}


def make_compiled_graph(scratch: Path, start_id: str) -> StartRecord:
    """Write what a server leaves on the scratch volume that compiled; return its start record."""
    folder = scratch / "graphs"
    for name, content in GRAPH_FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    record = StartRecord(
        start_id=start_id,
        key=pods.KEY,
        inputs=pods.INPUTS,
        checkpoints={"target": "c" * 40},
        origin="compiled",
        graphs=str(folder),
        started_at_unix_s=time.time() - 100,
    )
    write_record(scratch, record)
    return record
