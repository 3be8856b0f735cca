"""Writes one document of each kind that outlives a process, as today's code writes them.

`python -m tests.draftworth.records.write_golden NAME` makes the folder `golden/NAME`, once: what it
holds is read by every later version within the same major version (`test_golden.py`).
"""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from draftworth import __version__
from draftworth.analysis.costs import step_costs_of
from draftworth.measuring.journal import Entry
from draftworth.measuring.run_specification import RunSpec
from draftworth.records import likelihoods
from draftworth.records.acceptance import (
    AcceptanceProfile,
    DraftAcceptance,
    Measured,
    WindowAcceptance,
)
from draftworth.records.artifacts import ArtifactManifest
from draftworth.records.checkpoints import StagingPlan, StoredFile
from draftworth.records.codec import dump_record
from draftworth.records.load import ConcurrencyLoad, PoissonLoad
from draftworth.records.reading import Run
from draftworth.records.readings import Output, Pass, Reading
from draftworth.records.results import BlockResult, Interruption, RunResult, ServerStart
from draftworth.records.servers import SelfTest
from draftworth.records.transcripts import Transcript, dump_transcripts
from lambdas.capacity_controller.state import LastDecision, Notification, State
from lambdas.metrics_publisher.publisher import Claim
from tests.draftworth.measuring import specifications
from tests.draftworth.report.searches import make_search_result
from tests.lambdas.capacity_controller import plans
from tests.support.blocks import make_block, make_failed_record, make_price, make_record, make_run
from tests.support.serving_facts import make_serving_facts

GOLDEN = Path(__file__).parent / "golden"
RUN_ID = make_run().run_id
START = ServerStart(startup_s=300.0, compilation_s=200.0, graphs=8, load_s=40.0, load_bytes=6e10)
SELF_TEST = SelfTest(
    driver="2.28.0.0",
    runtime="2.30.51.0",
    devices=(0, 1),
    init_s=4.5,
    logical_cores=8,
    read_mib_per_s=900.0,
    memory_gib=200.0,
    disk_gib=100.0,
    seconds=25.0,
    failed="nrt_init returned 1",
)
READING = Reading(
    id="o-1",
    prompt_class="structured",
    case="count",
    prompt_id="prompt-0",
    hits="110",
    log_likelihood=-2.5,
    entropy=2.0,
    variance=1.5,
    farthest=0.25,
)


PROFILE = AcceptanceProfile(
    target="Qwen/Qwen3-32B",
    target_revision="main",
    source="a test",
    temperature=0.0,
    text_sha256="0" * 64,
    drafts=(
        DraftAcceptance(
            method="fused_draft",
            draft="Qwen/Qwen3-1.7B",
            draft_revision="main",
            classes={
                "structured": (
                    WindowAcceptance(
                        drafts_checked=2,
                        tokens_per_step=Measured(value=2.4, low=2.2, high=2.6),
                        accepted=(Measured(value=0.8, low=0.7, high=0.9), Measured(value=0.6)),
                        outputs=8,
                        tokens=800,
                    ),
                )
            },
        ),
    ),
)


def blocks() -> tuple[BlockResult, ...]:
    """One block of each side: a request that counts and one that failed."""
    load = PoissonLoad(requests_per_second=2.5)
    requests = {
        variant: (
            make_record(0, request_id=f"{variant}-0"),
            make_failed_record(1, request_id=f"{variant}-1", failed_after_s=2.5),
        )
        for variant in plans.VARIANTS
    }
    return tuple(
        make_block(variant=variant, block=number, requests=requests[variant], load=load)
        for number, variant in enumerate(plans.VARIANTS, start=1)
    )


def run_result() -> RunResult:
    """The end of a run that was interrupted once."""
    lost = Interruption(
        kind="servers",
        at_unix_s=plans.NOW,
        lost_s=12.0,
        blocks=("0003",),
        reason="its node was lost",
    )
    return make_run(
        *blocks(),
        price=make_price(node_shares=dict.fromkeys(plans.VARIANTS, 0.25)),
        interruptions=(lost,),
        server_starts=dict.fromkeys(plans.VARIANTS, START),
        self_tests={plans.SERVERS[0]: SELF_TEST},
        serving=make_serving_facts(),
        draftworth_version=__version__,
    )


def entry() -> Entry:
    """What a journal says of one measured block."""
    return Entry(
        attempt=1,
        number=1,
        kind="measured",
        started_at_unix_s=plans.NOW,
        ended_at_unix_s=plans.NOW + 60,
        blocks=tuple(block.stem for block in blocks()),
        starts={plans.VARIANTS[0]: START},
        self_tests={plans.SERVERS[0]: SELF_TEST},
    )


def run_specification() -> RunSpec:
    """A run of two endpoints with one case."""
    return specifications.specification(
        tuple(specifications.endpoint(variant, 0) for variant in plans.VARIANTS),
        loads=(ConcurrencyLoad(concurrency=4), PoissonLoad(requests_per_second=2.5)),
        load_generator="llmperf",
        sampling=specifications.sampling(max_requests=64),
        price=make_price(),
        ready_deadline_seconds=7200.0,
        serving=make_serving_facts(),
    )


def capacity_state() -> State:
    """The controller's state while nodes are up."""
    return State(
        status="active",
        current=plans.JOB,
        deployments={plans.JOB: plans.make_deployment()},
        last_decision=LastDecision(
            job_name=plans.JOB, desired_size=1, reason="ready", since_unix_s=plans.NOW
        ),
        outbox=(Notification(id="1", subject="subject", text="text", made_at_unix_s=plans.NOW),),
        schedule_at_unix_s=plans.NOW + 3600,
        requests=("request-1",),
    )


def beside_the_run() -> Mapping[str, bytes]:
    """Files that are written beside a run when it is over, by their names."""
    greedy = likelihoods.GreedyLikelihood(
        variant=plans.VARIANTS[1], outputs=8, tokens=800, beyond=0, farthest=0.1, chance=1.0
    )
    by_draft = likelihoods.DraftLikelihood(
        variant=plans.VARIANTS[1],
        prompt_class="structured",
        draft="Qwen3-1.7B",
        prompts=8,
        outputs=8,
        difference=0.01,
        low=-0.1,
        high=0.1,
    )
    prediction = likelihoods.Prediction(
        variant=plans.VARIANTS[1],
        prompt_class="structured",
        requests=8,
        predicted=3.4,
        measured=3.5,
        shown=8,
        same_sequence=7,
    )
    output = Output(
        id="o-1",
        prompt_class="structured",
        case="count",
        prompt_id="prompt-0",
        asked={"prompt": "Count to 200."},
        text="1 2 3",
        token_ids=(16, 17, 18),
    )
    verdict = plans.make_verdict(RUN_ID)
    found = replace(verdict.findings[0], judgement="more expensive")
    checks = likelihoods.Likelihoods(run_id=RUN_ID, likelihoods=(greedy, by_draft))
    return {
        "verdict.json": dump_record(replace(verdict, findings=(*verdict.findings, found))),
        "step_costs.json": dump_record(step_costs_of(Run(result=run_result(), blocks=blocks()))),
        "search.json": dump_record(make_search_result(run_id=RUN_ID)),
        "likelihoods.json": dump_record(checks),
        "predictions.json": dump_record(
            likelihoods.Predictions(run_id=RUN_ID, predictions=(prediction,))
        ),
        "drafts/outputs.jsonl": dump_record(output),
    }


def in_the_account() -> Mapping[str, bytes]:
    """Files that lie in buckets beside the runs, by names of our own."""
    manifest = ArtifactManifest(
        key="0a1b2c3d",
        inputs={"flags": ["--tensor-parallel-size", "32"]},
        checkpoints={"target": "c" * 40},
        folder="0a1b2c3d/upload-1",
        files=(StoredFile(path="graph.neff", size_bytes=3, sha256="0" * 64),),
        compile_seconds=3600.0,
        uploaded_at_unix_s=plans.NOW,
    )
    plan = StagingPlan(model=plans.TARGET.model, revision=plans.TARGET.revision, commit="c" * 40)
    claim = Claim(
        source_sha256="0" * 64, plan_sha256="1" * 64, calls=3, calls_done=3, lease_until_unix_s=0.0
    )
    read_by = Pass(
        model="Qwen3-1.7B",
        model_sha256="0" * 64,
        tokenizer_sha256="1" * 64,
        outputs_sha256="2" * 64,
        temperature=1.0,
        options={"batch": 4},
    )
    return {
        "run-specification.json": dump_record(run_specification()),
        "capacity-plan.json": dump_record(plans.make_plan()),
        "capacity-state.json": dump_record(capacity_state()),
        "published.json": dump_record(claim),
        "artifacts.json": dump_record(manifest),
        "ready.json": dump_record(plans.make_ready(plans.TARGET)),
        "staging.json": dump_record(plan),
        "staging-failed.json": dump_record(plans.make_failed_model()),
        "canary.json": dump_record(plans.make_report()),
        "server-state.json": dump_record(plans.make_given_up(self_test=SELF_TEST)),
        "acceptance.json": dump_record(PROFILE),
        "readings.jsonl": dump_record(read_by) + dump_record(READING),
    }


def documents() -> Mapping[str, bytes]:
    """Every document by its path; `run/` is a whole run's folder."""
    found = {"run.json": dump_record(run_result()), entry().name: dump_record(entry())}
    for block in blocks():
        texts = [
            Transcript(
                request_id=block.requests[0].request_id,
                text="1 2 3",
                chunk_offsets_us=(250_000, 280_000),
                chunk_tokens=(1, 2),
                chunk_characters=(1, 4),
                token_ids=(16, 17, 18),
            )
        ]
        found[f"blocks/{block.stem}.result.json"] = dump_record(block)
        found[f"blocks/{block.stem}.transcript.jsonl.gz"] = dump_transcripts(texts)
    of_run = {f"run/{name}": data for name, data in {**found, **beside_the_run()}.items()}
    return {**of_run, **in_the_account()}


def write(folder: Path) -> None:
    """Write all of them into a new folder."""
    folder.mkdir(parents=True)
    for name, data in documents().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


if __name__ == "__main__":
    write(GOLDEN / sys.argv[1])
