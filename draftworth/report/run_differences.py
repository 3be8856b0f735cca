"""Says how two runs differ, and why runs cannot be put together or compared."""

from collections.abc import Collection, Sequence

from draftworth.analysis import comparable_runs, pooling
from draftworth.analysis.comparable_runs import Difference, Work
from draftworth.decision import elsewhere, run_comparison

# The words for a field of a result, where its name is not the word that a user reads elsewhere.
_FIELDS = {
    "max_tokens_per_step": "most tokens per step",
    "class_weights": "weights of classes",
    "price": "prices",
    "load_generator": "load generator",
    "prompts_are_new": "prompts new to the servers",
    "chosen_by": "records of `prompts choose`",
    "vllm_version": "vLLM",
    "target_model": "target",
    "instance_type": "instance type",
    "tensor_parallel_size": "tensor parallel size",
    "lnc": "LNC",
    "slot_devices": "devices of a slot",
    "driver": "Neuron driver",
    "runtime": "Neuron runtime",
}

_LONGEST_VALUE_CHARACTERS = 200


def not_pooled_words(why: pooling.WhyNotPooled) -> str:
    """Say why runs cannot be put together, as the message of an error."""
    match why:
        case pooling.SearchAmongRuns(run_id=run_id):
            return (
                f"RUN: given {run_id}, which is a search, among several, allowed: a search alone; "
                "next: measure its best candidate in an experiment of its own, and put runs of "
                "that together"
            )
        case pooling.RunTwice(run_id=run_id):
            return f"RUN: given {run_id} twice, allowed: each run once; next: name it once"
        case pooling.RunsDiffer():
            instead = ", or compare both with --against" if why.may_be_compared else ""
            how = differences_words(why.differences)
            return (
                f"RUN: {why.first} and {why.second} cannot be put together: {how}. Give runs of "
                f"the same experiment file{instead}"
            )


def not_compared_words(error: run_comparison.NotComparedError) -> str:
    """Say why two runs cannot be compared, as the message of an error."""
    instead = (
        "Give two runs of the same experiment file"
        if error.of_one_experiment
        else "Measure both with the same prompts, loads, temperature and kind of cache"
    )
    return (
        f"--against: {error.first} and {error.second} cannot be compared: "
        f"{differences_words(error.differences)}. {instead}"
    )


def unlike_words(unlike: elsewhere.Unlike) -> str:
    """Say what is not alike in the work of two runs, as a clause without a full stop."""
    match unlike:
        case elsewhere.LoadsOfOneRun(loads=loads):
            return f"{_few({load.words for load in loads})}: of one run alone, and not compared"
        case elsewhere.TokensNotCounted(group=group, of=of):
            return f"{group.label}: tokens of {of} are not counted by both servers"
        case elsewhere.LengthsDiffer(group=group, of=of, first=first, second=second):
            return (
                f"{group.label}: {of} have {first:.0f} tokens here and {second:.0f} there, in the "
                "mean: it is not the same work, or not the same tokenizer"
            )


def differences_words(differences: Sequence[Difference]) -> str:
    """Say how two runs differ, as clauses without a full stop."""
    return "; ".join(map(_difference_words, differences))


def _difference_words(difference: Difference) -> str:
    match difference:
        case comparable_runs.ValuesDiffer():
            variant = f"{difference.variant}: " if difference.variant is not None else ""
            name = _FIELDS.get(difference.field, difference.field)
            first, second = map(_value_words, (difference.first, difference.second))
            return f"{variant}{name} {first} and {second}"
        case comparable_runs.NoVariantInBoth(first=ours, second=theirs):
            return f"no speculative variant in both: {list(ours)} and {list(theirs)}"
        case comparable_runs.WorkDiffers(first=ours, second=theirs):
            only = _only_in_one({*map(_work_label, ours)}, {*map(_work_label, theirs)})
            return f"classes, cases or loads: {only}"
        case comparable_runs.PromptsDiffer(first=ours, second=theirs):
            case_words = f"{difference.prompt_class}/{difference.case}"
            return f"prompts of {case_words}: {_only_in_one(ours, theirs)}"


def _value_words(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    text = repr(list(value) if isinstance(value, tuple) else value)
    return text[:_LONGEST_VALUE_CHARACTERS]


def _work_label(work: Work) -> str:
    return f"{work.prompt_class}/{work.case} at {work.load.words}"


def _only_in_one(ours: Collection[str], theirs: Collection[str]) -> str:
    return f"only in the first {_few(ours)}, only in the second {_few(theirs)}"


def _few(some: Collection[str]) -> str:
    """Return the first three names, joined, and how many more there are; or `nothing`."""
    names = sorted(some)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more}" if names else "nothing"
