"""Servers of a run: the facts that all variants share, and the state that each server reports.

The program that starts vLLM writes the server's state into the results bucket after every change;
the capacity controller and the measuring pod learn from it that a server will not become healthy.
The serving pods get this module's source in a ConfigMap, whose size is limited; so `deployment.py`,
which they do not need, is another module.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from draftworth.records.codec import Between, Checked
from draftworth.untrusted import REASON_CHARACTERS, one_line

# A folder of the results bucket, beside the runs.
CONTROL_PREFIX = "control/"


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How one variant decodes; the method `none` has no window and no draft.

    draft: Hugging Face id or folder of the draft; None also for n-gram drafting.
    draft_revision: the draft's commit, branch or tag on Hugging Face; None: the draft is a folder,
        or an earlier version measured the run.
    artifact_key: the key of the variant's compiled graphs; None without Neuron devices.
    """

    method: str
    window: int | None = None
    draft: str | None = None
    # `==` ignores these two fields: step latencies that were measured with one revision of the
    # draft and one artifact key are also valid for other ones.
    draft_revision: str | None = field(default=None, compare=False)
    artifact_key: str | None = field(default=None, compare=False)


@dataclass(frozen=True, kw_only=True)
class ServingFacts:
    """Everything that the time of a step depends on, except the load.

    image: None if the engine does not run in a container.
    target_model: Hugging Face id or folder of the target.
    target_revision: commit, branch or tag on Hugging Face; None: a folder, or not recorded.
    lnc: physical cores in a logical NeuronCore. slot_devices: number of devices of a slot.
    instance_type, tensor_parallel_size, lnc, slot_devices: None without Neuron devices.
    decoding: method, window and draft, by variant.
    """

    release: str
    platform: str
    image: str | None
    vllm_version: str
    target_model: str
    instance_type: str | None
    tensor_parallel_size: int | None
    lnc: int | None
    slot_devices: int | None
    max_num_seqs: int
    max_model_len: int
    decoding: Mapping[str, Decoding]
    target_revision: str | None = field(default=None, compare=False)


SERVERS_FOLDER = f"{CONTROL_PREFIX}serving/"
# Environment variables with the names of the server's variant, its Deployment and its pod.
VARIANT_VARIABLE = "DRAFTWORTH_VARIANT"
SERVER_VARIABLE = "DRAFTWORTH_SERVER"
POD_VARIABLE = "DRAFTWORTH_POD"
# A pod's self-test may take at most this long; it takes seconds if all is well.
SELF_TEST_LIMIT_MINUTES = 11
# How long a server may take from the end of its pod's self-test until it is healthy: the first
# limit is for a server that loads compiled graphs, the second for one that must compile. A server
# that is not healthy by then is ended and not started again. `plan` assumes at most 10 minutes for
# loading; with 10 minutes for the node's start, a server that never becomes healthy costs half an
# hour of the node.
LOAD_LIMIT_MINUTES = 20
COMPILE_LIMIT_MINUTES = 120
# How long to wait for a server's first answer: the time that it may compile graphs, and 10 minutes
# in which a node joins the cluster and pulls the image.
START_ALLOWANCE_MINUTES = COMPILE_LIMIT_MINUTES + 10

# A limit for the list of devices in a self-test: more devices than any instance has.
MAX_DEVICES = 1000

# This many last lines of a log contain the traceback of the error that ended the server.
LAST_LINES = 50

# testing: the pod tests its devices; if `self_test` is not None, it has tested them and fetches its
# compiled graphs.
# starting: vLLM runs and has not answered yet. healthy: vLLM has answered. ended: the process has
# ended and is started again. given_up: it is not started again, and the nodes may be released.
ServerPhase = Literal["testing", "starting", "healthy", "ended", "given_up"]


_Figure = Annotated[float, Between(0, 1e9)]


@dataclass(frozen=True, kw_only=True)
class SelfTest(Checked):
    """The result of a pod's self-test before its server starts; an empty or None value is unknown.

    driver, runtime: versions of the Neuron driver and of the runtime library.
    devices: the numbers of the devices that the container has, as in /dev/neuron8.
    init_s: seconds that the runtime's start (`nrt_init`) took.
    logical_cores: how many logical NeuronCores the runtime then shows.
    read_mib_per_s: the speed at which a file of the target's checkpoint was read.
    memory_gib, disk_gib: the free memory of the container, and the free space of its scratch disk.
    seconds: how long the test took. failed: why the server must not start; empty if it may.
    """

    driver: str = ""
    runtime: str = ""
    devices: tuple[int, ...] = ()
    init_s: _Figure | None = None
    logical_cores: int | None = None
    read_mib_per_s: _Figure | None = None
    memory_gib: _Figure | None = None
    disk_gib: _Figure | None = None
    seconds: _Figure
    failed: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        # A pod's self-test becomes a part of `run.json`, whose size is limited.
        texts = max(map(len, (self.driver, self.runtime, self.failed)))
        if len(self.devices) > MAX_DEVICES or texts > REASON_CHARACTERS:
            raise ValueError(
                f"allowed: at most {MAX_DEVICES} devices, texts of {REASON_CHARACTERS} characters"
            )


@dataclass(frozen=True, kw_only=True)
class ServerState(Checked):
    """`control/serving/SERVER.json`: the state of one server after its last change.

    server: the name of the server's Deployment. A variant has two of them if the variants swap
        their slots (the devices that each uses) during the run.
    pod: the name of the server's pod.
    start: how often the server was started in this pod, this time included.
    phase: `ended` also if the server was stopped on purpose; a killed pod leaves its last phase.
    since_unix_s: when the phase began.
    exit_code: 128 + the number of a signal if a signal ended the process; None while it runs.
    last_lines: the last lines of the pod's log (at most LAST_LINES), the newest line last.
    reason: why the phase is `given_up`; empty in every other phase.
    self_test: the result of this pod's self-test; None until the test has ended.
    """

    schema: str = "draftworth.server-state/3"
    server: str
    variant: str
    pod: str
    start: Annotated[int, Between(1)]
    phase: ServerPhase
    since_unix_s: float
    exit_code: int | None = None
    last_lines: tuple[str, ...] = ()
    reason: str = ""
    self_test: SelfTest | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.reason) != (self.phase == "given_up"):
            raise ValueError("reason: allowed: text in the phase given_up, empty in every other")


def server_state_key(server: str) -> str:
    """Return the object key of a server's state."""
    return f"{SERVERS_FOLDER}{server}.json"


def last_lines(log: tuple[str, ...]) -> tuple[str, ...]:
    """Return the last LAST_LINES lines of a log, each made printable and cut as by `one_line`."""
    return tuple(one_line(line) for line in log[-LAST_LINES:])
