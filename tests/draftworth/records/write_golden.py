"""Documents of every kind that outlives a process, by version; adds those of today's code.

`python -m tests.draftworth.records.write_golden NAME` makes the folder `golden/NAME`, once: the
newest documents, read and written again by today's code. Before they are committed, a field or a
kind that came since gets a value there by hand. What a folder holds is read by every later version
within the same major version (`test_golden.py`).
"""

import gzip
import sys
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from draftworth.measuring.journal import Entry
from draftworth.measuring.run_specification import RunSpec
from draftworth.records.acceptance_profile import AcceptanceProfile
from draftworth.records.allowed_steps import AllowedSteps
from draftworth.records.checkpoints import FailedModel, ReadyModel, StagingPlan
from draftworth.records.codec import dump_record, load_record
from draftworth.records.controller_state import State
from draftworth.records.deployment import CanaryReport, CapacityPlan
from draftworth.records.findings import Verdict
from draftworth.records.graph_manifests import ArtifactManifest
from draftworth.records.likelihoods import Likelihoods, Predictions
from draftworth.records.logged_traffic import LoggedTraffic, PromptForecasts
from draftworth.records.readings import Output, Pass, Reading
from draftworth.records.results import BlockResult, RunResult
from draftworth.records.search_result import SearchResult
from draftworth.records.servers import ServerState
from draftworth.records.step_costs import StepCostCard
from draftworth.records.transcripts import Transcript
from lambdas.metrics_publisher.publisher import Claim

# By the document's path: the record of each line, a field of the first one, and what it holds.
KINDS: Mapping[str, tuple[tuple[type[Any], ...], str, object]] = {
    "run/run.json": ((RunResult,), "price.usd_per_node_hour", 10.0),
    "run/journal/*": ((Entry,), "kind", "measured"),
    "run/blocks/*.result.json": ((BlockResult,), "load.label", "p2.5"),
    "run/blocks/*.transcript.jsonl.gz": ((Transcript,), "text", "1 2 3"),
    "run/verdict.json": ((Verdict,), "findings", None),
    "run/step_costs.json": ((StepCostCard,), "serving.tensor_parallel_size", 32),
    "run/search.json": ((SearchResult,), "best", "a-k6"),
    "run/likelihoods.json": ((Likelihoods,), "likelihoods", None),
    "run/predictions.json": ((Predictions,), "predictions", None),
    "run/allowed_steps.json": ((AllowedSteps,), "variants", None),
    "run/drafts/outputs.jsonl": ((Output,), "token_ids", (16, 17, 18)),
    "run-specification.json": ((RunSpec,), "sampling.max_requests", 64),
    "capacity-plan.json": ((CapacityPlan,), "budget_usd", 60.0),
    "capacity-state.json": ((State,), "deployment.plan.deadline_minutes", 240),
    "published.json": ((Claim,), "calls_done", 3),
    "artifacts.json": ((ArtifactManifest,), "size_bytes", 3),
    "ready.json": ((ReadyModel,), "size_bytes", 3),
    "staging.json": ((StagingPlan,), "model", "Qwen/Qwen3-32B"),
    "staging-failed.json": ((FailedModel,), "reason", "no such revision"),
    "canary.json": ((CanaryReport,), "ok", True),
    "server-state.json": ((ServerState,), "phase", "given_up"),
    "readings.jsonl": ((Pass, Reading), "options", {"batch": 4}),
    "acceptance.json": ((AcceptanceProfile,), "temperature", 0.0),
    "prompt_forecasts.json": ((PromptForecasts,), "window", 7),
    "logged_traffic.json": ((LoggedTraffic,), "steps_per_token", 0.375),
}
GOLDEN = Path(__file__).parent / "golden"
VERSIONS = sorted(folder.name for folder in GOLDEN.iterdir())


def kind_of(document: str) -> tuple[tuple[type[Any], ...], str, object]:
    return next(kind for pattern, kind in KINDS.items() if fnmatch(document, pattern))


def lines_of(file: Path) -> list[bytes]:
    data = file.read_bytes()
    return (gzip.decompress(data) if file.suffix == ".gz" else data).splitlines()


def records_of(file: Path) -> list[Any]:
    """The records of a document; the first folder of its path below `GOLDEN` is its version."""
    _, *parts = file.relative_to(GOLDEN).parts
    kinds, _, _ = kind_of("/".join(parts))
    return [load_record(kind, line) for kind, line in zip(kinds, lines_of(file), strict=True)]


def write(name: str) -> None:
    """Write the newest documents into a new folder, as today's code writes them."""
    (GOLDEN / name).mkdir()
    newest = GOLDEN / VERSIONS[-1]
    for file in (path for path in newest.rglob("*.*") if path.is_file()):
        data = b"".join(map(dump_record, records_of(file)))
        path = GOLDEN / name / file.relative_to(newest)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(data, mtime=0) if file.suffix == ".gz" else data)


if __name__ == "__main__":
    write(sys.argv[1])
