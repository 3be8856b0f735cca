"""Servers of a run: the facts that every variant shares, and what a server says of its starts.

Apart from `capacity`, because the serving pods' programs travel in a ConfigMap, where every file
counts twice.

Standard library only.

Written into the results bucket by the program that stays the parent of vLLM, each time something
changed, over what was there: the capacity controller and the measuring pod must learn that a server
will not get healthy, and nobody else can tell them. Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from draftworth.untrusted import one_line

# A folder of the results bucket, beside the runs.
CONTROL_PREFIX = "control/"


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How one variant decodes; method `none`, without window and draft: no speculation.

    draft: hub id or folder.
    artifact_key: of its compiled graphs, which stands for the flags and revisions that they follow;
        None: no Neuron devices. Two variants decode alike whatever their keys are.
    """

    method: str
    window: int | None = None
    draft: str | None = None
    # A step-cost card is of use beside graphs of another key too.
    artifact_key: str | None = field(default=None, compare=False)


@dataclass(frozen=True, kw_only=True)
class ServingFacts:
    """What a step's time depends on beside the load.

    image: None: the engine is not in one. target_model: hub id or folder.
    instance_type, tensor_parallel_size, lnc, slot_devices: None: no Neuron devices.
    decoding: by variant.
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


SERVERS_FOLDER = f"{CONTROL_PREFIX}serving/"
# Variables that tell the program which server it is.
VARIANT_VARIABLE = "DRAFTWORTH_VARIANT"
SERVER_VARIABLE = "DRAFTWORTH_SERVER"
POD_VARIABLE = "DRAFTWORTH_POD"
# What a server's starts may take, from its pod's first one without health: where there are compiled
# graphs, and where there are none. Then it is given up. `plan` assumes at most 10 for a load; with
# the ten that a node may take to start, one that never ends has cost half an hour.
LOAD_LIMIT_MINUTES = 20
COMPILE_LIMIT_MINUTES = 120
# For who waits for a server that has never answered: the longer of these, and a node that joins and
# pulls its image before the start begins.
START_ALLOWANCE_MINUTES = COMPILE_LIMIT_MINUTES + 10

# Of a server's log: enough for the traceback that ended it.
LAST_LINES = 50

# starting: vLLM runs and has not answered yet. healthy: it has. ended: it is no more, and is
# started again. given_up: it is not worth another start; the nodes may go.
ServerPhase = Literal["starting", "healthy", "ended", "given_up"]


@dataclass(frozen=True, kw_only=True)
class ServerState:
    """`control/serving/SERVER.json`: the last change of one server.

    server: its name, which is its Deployment's; a variant has two where servers start and stop. One
        that was stopped has ended, or was killed and says what it said last: neither means that it
        should run.
    pod: its name; another pod counts its starts anew.
    start: number of this start in its pod, from 1.
    since_unix_s: when the phase began.
    exit_code: of the server, 128 + the number of a signal; None while it runs.
    last_lines: of its log, the newest last.
    reason: why it was given up; empty in every other phase.
    """

    schema: str = "draftworth.server-state/3"
    server: str
    variant: str
    pod: str
    start: int
    phase: ServerPhase
    since_unix_s: float
    exit_code: int | None = None
    last_lines: tuple[str, ...] = ()
    reason: str = ""

    def __post_init__(self) -> None:
        if self.start < 1:
            raise ValueError(f"start: given {self.start}, allowed: 1 or more")
        if bool(self.reason) != (self.phase == "given_up"):
            raise ValueError("reason: there is one exactly where the phase is given_up")


def server_state_key(server: str) -> str:
    """Object key of a server's state."""
    return f"{SERVERS_FOLDER}{server}.json"


def last_lines(log: tuple[str, ...]) -> tuple[str, ...]:
    """The end of a log as a record holds it: printable, each on one line."""
    return tuple(one_line(line) for line in log[-LAST_LINES:])
