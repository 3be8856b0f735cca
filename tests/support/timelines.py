"""A time line that can be computed by hand: the published experiment with round assumptions."""

from draftworth.planning.assumptions import assumption_data, replaced
from tests.support.experiments import with_rounds

# The rate in Gbit/s at which one GiB takes one second.
GIB_A_SECOND = 2**30 * 8 / 1e9


QWEN = with_rounds()
BY_HAND = replaced(
    assumption_data().assumptions,
    [
        "deploy_minutes=30",
        "redeploy_minutes=5",
        "stager_start_minutes=1",
        f"hub_gbit_per_s={GIB_A_SECOND}",
        "scale_up_minutes=1",
        "node_start_minutes=5",
        "image_pull_minutes=4",
        "self_test_minutes=0",
        "compile_minutes=30",
        f"load_gbit_per_s={GIB_A_SECOND}",
        "warm_up_minutes=1",
        "baseline_ms_per_token=50",
        "speculative_ms_per_token=25",
        "first_token_seconds=0",
        "block_overhead_seconds=0",
        "teardown_minutes=5",
        "budget_delay_minutes=0",
    ],
)
