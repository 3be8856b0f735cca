"""One scenario of a whole experiment for each way in which programs end a run, or never begin it.

Canaries, start wrappers, stagers and the measuring Job's pod are the real programs, around a vLLM
that fails. What takes them minutes has a shorter limit here, and costs the scenario the real one by
the controller's ledger. Before there were canaries and wrappers that report, nobody noticed such a
server for 225 minutes.

`make test-scenarios` runs these. Ends that the controller alone brings about are in its own tests
(tests/lambdas/capacity_controller).
"""

import json
import re
import signal
from argparse import Namespace
from collections.abc import Mapping

import pytest

from charts.checkpoint_staging import RETRIES
from draftworth.account import delete_assets, stop
from draftworth.errors import DraftworthError, UserInputError
from draftworth.measuring.run_specification import EXIT_FAILED, EXIT_INTERRUPTED
from draftworth.metrics.definitions import NAMESPACE
from draftworth.records.checkpoints import FAILED_MARKER
from draftworth.records.findings import VERDICT_FILE
from draftworth.records.results import RESULT_SUFFIX, RUN_FILE
from draftworth.records.servers import LOAD_LIMIT_MINUTES
from pods.canary.attempts import EXIT_FAILED as CANARY_FAILED
from pods.canary.attempts import EXIT_OK as CANARY_WELL
from pods.compiled_graphs.vllm_parent import MAX_STARTS
from tests.end_to_end import programs
from tests.end_to_end.cloud import Template
from tests.end_to_end.conftest import DEADLINE_MINUTES, DRAFT, TARGET, Environment, FirstRun
from tests.support.neuron import RUNTIME, compiled

pytestmark = [pytest.mark.synth, pytest.mark.emulator, pytest.mark.scenarios]

# The best case of `plan`: node_start_minutes and image_pull_minutes of its assumptions.
BOOT_MINUTES = 6
REFUSED_LOAD_MINUTES = 30
# The minutes of a failed self-test in `plan`, and the most that a broken device may cost.
SELF_TEST_MINUTES, DEVICE_MINUTES = 2, 10
# The limit of `start` in tests that wait for it.
SHORT_MINUTES = "0.01"
CRASH_LOOP_MINUTES = 15
# A vLLM that ends at once takes this long, mostly for Python's imports.
CRASH_MINUTES = 1.0
# The kubelet's delays before it restarts a container: 10 s, 20 s, 40 s, ...
FIRST_BACK_OFF_MINUTES = 10 / 60
# The error in the log when tests/pods/compiled_graphs/stand_in_vllm.py crashes.
CRASHED = "RuntimeError: no"


def begun(env: Environment, first_run: FirstRun) -> None:
    """The node is up, and the Job's first pod has begun its run and then lost its CPU node.

    It waits for its servers, and loses its CPU node.
    """
    env.stage(first_run.contents)
    process = env.start(env.measurer(1), "llmperf")
    env.wait_for("results", f"runs/{env.job_name}-")
    process.signal(signal.SIGTERM)
    assert process.wait() == EXIT_INTERRUPTED, process.output
    env.cloud.heartbeat(after_minutes=BOOT_MINUTES - 2)


def check_ended(env: Environment, *, at_most_minutes: float) -> str:
    """Check that the nodes end and cost no more than a drain; return the one mail about it.

    The mail about it.
    """
    cloud, paid = env.cloud, programs.paid_minutes(env)
    assert 0 < paid <= at_most_minutes
    price = env.experiment.node_price.usd_per_hour
    assert programs.ledger(env).spent_usd == pytest.approx(paid / 60 * price)
    assert cloud.desired_nodes == 0
    cloud.nodes_follow()
    cloud.heartbeat(after_minutes=2)
    assert programs.paid_minutes(env) == pytest.approx(paid + 2)
    cloud.heartbeat(after_minutes=120)
    assert programs.paid_minutes(env) == pytest.approx(paid + 2)
    mails = cloud.notifications()
    assert len(mails) == 1, mails[1][:300]
    return mails[0]


def end_run(env: Environment) -> str:
    """Run the Job's next pod, which waits for no given-up server; return the run's reason."""
    process = env.start(env.measurer(2), "llmperf")
    assert process.wait() == EXIT_FAILED, process.output
    (run,) = (json.loads(env.get("results", key)) for key in env.keys("results", f"/{RUN_FILE}"))
    assert run["status"] == "failed"
    return str(run["reason"])


def check_nothing_paid(env: Environment) -> str:
    """Check that no node starts, now or later; return the one mail about it."""
    (mail,) = env.cloud.notifications()
    env.cloud.heartbeat(after_minutes=60)
    env.cloud.nodes_follow()
    assert (env.cloud.desired_nodes, env.cloud.instances) == (0, 0)
    assert (programs.paid_minutes(env), programs.ledger(env).spent_usd) == (0, 0)
    return mail


def put_checkpoints(env: Environment, objects: Mapping[str, bytes]) -> None:
    """Stage all checkpoints, so that only the canaries are missing."""
    env.put("checkpoints", objects)
    env.cloud.events()
    env.cloud.notifications()


def runs_in(first_run: FirstRun) -> dict[str, bytes]:
    """Return the files of the measuring pods, without states of servers and controller."""
    results = first_run.contents["results"]
    return {key: data for key, data in results.items() if key.startswith("runs/")}


def test_a_finished_run_ends_nodes_and_reaches_metrics(
    env: Environment, first_run: FirstRun
) -> None:
    cloud, results = env.cloud, runs_in(first_run)
    env.stage(first_run.contents)
    env.put("results", {k: v for k, v in results.items() if not k.endswith("/run.json")})
    assert cloud.events() == 0
    assert cloud.desired_nodes == 1
    env.put("results", results)
    assert cloud.events() == 1
    assert cloud.desired_nodes == 0
    (mail,) = cloud.notifications()
    # Whether it is certain depends on the machine's other work.
    assert re.search("Speculation pays|No answer yet", mail)
    page = f"runs/{first_run.run_id}/report/report.html"
    assert f"s3://{cloud.bucket.results}/{page}" in mail
    assert page in results
    cloud.nodes_follow()
    assert cloud.instances == 0
    published = {entry["key"] for entry in cloud.publish() if entry["event"] == "published"}
    assert published == {key for key in results if key.endswith((RESULT_SUFFIX, VERDICT_FILE))}
    names = cloud.client("cloudwatch").list_metrics(Namespace=NAMESPACE)["Metrics"]
    variants = {d["Value"] for m in names for d in m["Dimensions"] if d["Name"] == "Variant"}
    assert variants == set(env.ports)


def test_a_destroyed_experiment_leaves_only_results_and_checkpoints(
    env: Environment,
    first_run: FirstRun,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cloud = env.cloud
    env.stage(first_run.contents)
    env.put("results", first_run.contents["results"])
    env.measurer()  # and its prompts
    with pytest.raises(DraftworthError, match="still exists"):
        delete_assets.run(Namespace(experiment=env.path))
    cloud.destroy()
    states = [{"Name": "instance-state-name", "Values": ["running", "pending"]}]
    assert cloud.client("ec2").describe_instances(Filters=states)["Reservations"] == []
    capsys.readouterr()
    assert env.leftovers(monkeypatch) == 1
    uploaded = f"s3://{cloud.asset_bucket}/draftworth-qwen3-32b/"
    assert uploaded in capsys.readouterr().out
    assert delete_assets.run(Namespace(experiment=env.path)) == 0
    code = env.leftovers(monkeypatch)
    deleted, left_over = capsys.readouterr().out.split("\n", 1)
    assert code == 0, left_over
    assert uploaded in deleted
    assert uploaded not in left_over
    assert cloud.bucket.checkpoints in left_over
    assert f"its runs: draftworth report s3://{cloud.bucket.results}" in left_over
    assert env.keys("checkpoints")
    assert set(first_run.contents["results"]) <= set(env.keys("results"))


def test_stop_ends_the_node_and_resume_starts_it(
    env: Environment,
    first_run: FirstRun,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cloud = env.cloud
    env.stage(first_run.contents)

    def a_while(_: float) -> None:
        cloud.events()
        cloud.nodes_follow()

    monkeypatch.setattr("draftworth.account.stop.time.sleep", a_while)
    arguments = Namespace(experiment=env.path, resume=False, wait_minutes=30)
    assert stop.run(arguments) == 0
    assert (cloud.desired_nodes, cloud.instances) == (0, 0)
    printed = capsys.readouterr().out
    assert "1 desired node, 1 existing instance" in printed
    assert "0 desired nodes, 0 existing instances" in printed
    assert "0 nodes, stopped, since" in printed
    assert "USD by the controller's ledger" in printed
    (mail,) = cloud.notifications()
    assert "stop EXPERIMENT --resume" in mail

    assert stop.run(Namespace(experiment=env.path, resume=True, wait_minutes=0)) == 0
    cloud.heartbeat(after_minutes=2)
    assert cloud.desired_nodes == 1


def test_a_rerun_at_its_deadline_keeps_no_node(
    env: Environment, first_run: FirstRun, repeated_templates: Mapping[str, Template]
) -> None:
    cloud = env.cloud
    env.stage(first_run.contents)
    env.put("results", first_run.contents["results"])
    cloud.now_unix_s += 3600
    cloud.update(repeated_templates)
    programs.reports_of_canaries(env)
    assert cloud.desired_nodes == 1
    cloud.nodes_follow()
    programs.reports_of_servers(env)
    pod = env.measurer()
    process = env.start(pod, "llmperf")
    env.wait_for("results", f"runs/{pod.owner['metadata']['name']}-")
    process.signal(signal.SIGTERM)
    assert process.wait() == EXIT_INTERRUPTED, process.output
    cloud.heartbeat(after_minutes=DEADLINE_MINUTES - 1)
    assert cloud.desired_nodes == 1
    cloud.heartbeat(after_minutes=2)
    assert cloud.desired_nodes == 0
    cloud.nodes_follow()
    assert cloud.instances == 0
    cloud.update(repeated_templates)
    cloud.heartbeat(after_minutes=2)
    assert cloud.desired_nodes == 0


def crash(env: Environment, variant: str, start: int) -> None:
    """Run one start to its end, and wait as the kubelet does afterwards."""
    process = programs.start_server(env, variant, trouble="crash")
    assert process.wait() != 0
    env.cloud.heartbeat(after_minutes=CRASH_MINUTES)
    programs.hear_of_server(env, variant)
    env.cloud.heartbeat(after_minutes=FIRST_BACK_OFF_MINUTES * 2 ** (start - 1))
    assert env.cloud.desired_nodes == 1


def test_a_server_that_ends_at_every_start(env: Environment, first_run: FirstRun) -> None:
    """The Job notices first: its failed run and the server's end are one mail."""
    begun(env, first_run)
    other, broken = env.ports
    programs.start_server(env, other, trouble="hang")
    for start in range(1, MAX_STARTS):
        crash(env, broken, start)
    last = programs.start_server(env, broken, trouble="crash")
    programs.wait_for_server(env, broken, "given_up")
    reason = end_run(env)
    assert all(words in reason for words in (broken, "was given up", CRASHED))
    env.cloud.now_unix_s += 60 * CRASH_MINUTES
    programs.hear_of_server(env, broken)
    assert last.process.poll() is None, "a container that ends is started again"
    mail = check_ended(env, at_most_minutes=CRASH_LOOP_MINUTES)
    assert all(words in mail for words in ("server gave up", CRASHED, broken, "ended 3 times"))


def test_a_failed_canary_costs_nothing_until_it_succeeds(
    env: Environment, first_run: FirstRun
) -> None:
    staged = first_run.contents["checkpoints"]
    ours = (key for key in staged if key.startswith(f"{DRAFT}/"))
    largest = max(ours, key=lambda key: len(staged[key]))
    put_checkpoints(env, {**staged, largest: staged[largest][:-1]})
    other, broken = env.ports
    assert programs.run_canaries(env) == {other: CANARY_WELL, broken: CANARY_FAILED}
    mail = check_nothing_paid(env)
    size = len(staged[largest])
    cut = f"{size} bytes were staged, {size - 1} there"
    assert all(words in mail for words in ("canary failed", broken, cut))
    env.put("checkpoints", staged)
    programs.reports_of_canaries(env)
    assert env.cloud.desired_nodes == 1


def test_a_stager_that_gives_up_costs_nothing(env: Environment) -> None:
    env.hub.repos[TARGET].gated = True
    assert env.stagers()[0].run("checkpoint-stager") == UserInputError.exit_code
    env.cloud.notifications()
    assert "no token was given" in programs.hear_of_stager(env, TARGET).reason
    mail = check_nothing_paid(env)
    assert all(words in mail for words in ("staging failed", TARGET, "no token was given"))


def test_a_compiled_graph_that_does_not_load(env: Environment, first_run: FirstRun) -> None:
    """The controller notices first: the Job's later failure sends no further mail."""
    env.put("artifacts", first_run.contents["artifacts"])
    begun(env, first_run)
    other, broken = env.ports
    programs.start_server(env, other)
    programs.start_server(env, broken, trouble="hang", load_minutes=SHORT_MINUTES)
    programs.wait_for_server(env, other, "healthy")
    programs.wait_for_server(env, broken, "given_up")
    env.cloud.now_unix_s += 60 * LOAD_LIMIT_MINUTES
    programs.hear_of_server(env, broken)
    mail = check_ended(env, at_most_minutes=REFUSED_LOAD_MINUTES)
    why = f"not healthy {SHORT_MINUTES} minutes after its first start"
    assert all(words in mail for words in ("server gave up", broken, why))
    assert "was given up" in end_run(env)
    env.cloud.events()
    env.cloud.heartbeat(after_minutes=2)
    assert env.cloud.notifications() == []


def test_a_driver_that_refuses_the_images_runtime(env: Environment, first_run: FirstRun) -> None:
    """The controller does not wait for the other server, which has its own devices."""
    compiled("neuron.c")
    begun(env, first_run)
    _, broken = env.ports
    (env.node / "sys" / "module" / "neuron" / "version").write_text("2.29.0.0\n")
    programs.start_server(env, broken)
    programs.wait_for_server(env, broken, "given_up")
    env.cloud.now_unix_s += 60 * SELF_TEST_MINUTES
    programs.hear_of_server(env, broken)
    mail = check_ended(env, at_most_minutes=DEVICE_MINUTES)
    why = "self-test: Neuron driver 2.29.0.0 needs Neuron runtime 2.33 or later"
    assert all(words in mail for words in ("server gave up", broken, why, "self-test: FAILED"))
    assert why in end_run(env)
    (run,) = (json.loads(env.get("results", key)) for key in env.keys("results", f"/{RUN_FILE}"))
    (self_test,) = run["self_tests"].values()
    assert (self_test["runtime"], self_test["devices"]) == (RUNTIME, list(range(8)))


def test_a_stager_whose_last_pod_fails_costs_nothing(env: Environment) -> None:
    env.hub.trouble.corrupt["config.json"] = 1000
    for number in (1, RETRIES):
        env.start(env.stagers(number)[0], "checkpoint-stager").wait()
        assert env.keys("checkpoints", FAILED_MARKER) == []
    env.cloud.notifications()
    env.start(env.stagers(RETRIES + 1)[0], "checkpoint-stager").wait()
    assert "config.json" in programs.hear_of_stager(env, TARGET).reason
    mail = check_nothing_paid(env)
    assert all(words in mail for words in ("staging failed", f"{RETRIES + 1} tries failed"))
