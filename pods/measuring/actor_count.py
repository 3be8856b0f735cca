"""How many Ray actors a run needs, and how many one machine can have."""

from draftworth.measuring.run_specification import RunSpec
from draftworth.records.load_shapes import MAX_LLMPERF_IN_FLIGHT, Load


def actors_needed(spec: RunSpec, ray_address: str | None) -> int:
    """Return the number of Ray actors: the most requests that the run may have in flight at once.

    Each actor sends one request at a time.
    A Poisson load can, but rarely does, have a whole block in flight, so on one machine it gets at
    most `MAX_LLMPERF_IN_FLIGHT` actors. The engine reports how many requests waited for an actor.
    ray_address: the address of a Ray cluster; None: the actors are on this machine.
    """
    at_once = len(spec.endpoints) if spec.parallel else 1

    def in_flight(load: Load) -> int:
        warmup = len(load.warmup_shares(spec.sampling.warmup_requests))
        block = warmup + spec.sampling.requests_per_round
        room = block if ray_address else MAX_LLMPERF_IN_FLIGHT // at_once
        return load.in_flight or max(1, min(block, room))

    return max(1, at_once * max(map(in_flight, spec.loads)))


def too_many_for_one_machine(count: int) -> str:
    """Return why one machine cannot run this many actors; an empty text if it can."""
    if count <= MAX_LLMPERF_IN_FLIGHT:
        return ""
    return (
        f"{count} requests in flight are {count} processes, and one machine gets at most "
        f"{MAX_LLMPERF_IN_FLIGHT}; --ray-address names a cluster that carries more"
    )
