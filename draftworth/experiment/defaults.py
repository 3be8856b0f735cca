"""Works out the values of keys that a file leaves out, from its other keys and the prompts."""

import json
from collections.abc import Sequence

from draftworth.experiment.model import Experiment, NeuronExperiment
from draftworth.experiment.node_images import DriverAndRuntime
from draftworth.records.prompts import Case

# A server decodes at least this many sequences at once, as in the published experiment.
_LEAST_SEQUENCES = 4
_MODEL_LEN_STEP = 1024
# Room for the chat template of a prompt.
_TEMPLATE_TOKENS = 32


def with_defaults(spec: Experiment, cases: Sequence[Case]) -> Experiment:
    """Return the experiment with a value for each key that was left out; `cases`: its prompts."""
    work, serving = spec.workload, spec.serving
    work = work.model_copy(update={"input_tokens": work.input_tokens or _longest_prompt(cases)})
    total = work.most_input_tokens + work.output_tokens
    found = {
        "max_num_seqs": max((_LEAST_SEQUENCES, *work.concurrencies)),
        "max_model_len": -(-total // _MODEL_LEN_STEP) * _MODEL_LEN_STEP,
    }
    if isinstance(spec, NeuronExperiment):
        found["slot_devices"] = max(1, spec.accelerator.devices // 2)
        spec = _on_fitting_nodes(spec)
    left_out = {name: value for name, value in found.items() if not getattr(serving, name)}
    return spec.model_copy(
        update={"workload": work, "serving": serving.model_copy(update=left_out)}
    )


def _on_fitting_nodes(spec: NeuronExperiment) -> NeuronExperiment:
    """Pin a node release that fits, if none is pinned and EKS's newest release does not fit.

    A release fits if its Neuron driver works with the image's runtime. The newest one is pinned.
    """
    pair, pins = DriverAndRuntime.of(spec), spec.aws.pins
    if pins.node_release or not pair.why_unfit:
        return spec
    pins = pins.model_copy(update={"node_release": next(pair.fitting_releases(), None)})
    return spec.model_copy(update={"aws": spec.aws.model_copy(update={"pins": pins})})


def _longest_prompt(cases: Sequence[Case]) -> int:
    """Estimate the tokens of the longest prompt: half of its bytes as JSON, plus 32.

    The 32 are for a chat template. Most text has fewer tokens; long rows of digits may have more.
    """
    sent = ((p.messages or p.text_to_continue, p.tools) for case in cases for p in case.prompts)
    sizes = (len(json.dumps(s, ensure_ascii=False, default=dict).encode()) for s in sent)
    return max(sizes, default=0) // 2 + _TEMPLATE_TOKENS
