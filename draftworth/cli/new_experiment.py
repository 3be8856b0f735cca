"""The content of an experiment file that `draftworth init` writes, from answers, prompts and a run.

The template `experiment.yaml.jinja` turns this content into the file and adds the comments. If a
field is None or empty, its key is left out of the file, and the key's default applies.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from draftworth.experiment.catalog import catalog
from draftworth.records.prompt_files import Case
from draftworth.records.run_folder import Run
from draftworth.records.servers import Decoding, ServingFacts

# The commits on Hugging Face of the target and the draft model of the published benchmark. Of any
# other model, only the user knows which commit is meant.
PUBLISHED_TARGET, PUBLISHED_DRAFT = "Qwen/Qwen3-32B", "Qwen/Qwen3-1.7B"
_REVISIONS = {
    PUBLISHED_TARGET: "9216db5781bf21249d130ec9da846c4624c16137",
    PUBLISHED_DRAFT: "70d244cc86ccca08cf5af4e1e306ecf908b1ad5e",
}
# The most output tokens per request if neither the prompts nor an earlier run give a limit. The
# published benchmark on Trainium2 has this limit (docs/prompts.md).
_USUAL_TOKENS = 600

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model as the experiment file names it.

    name: Hugging Face id, or folder. revision: commit on Hugging Face.
    tokenizer_family: of a model that the catalogue does not know; models of one family share token
        ids. None: the catalogue knows it.
    """

    name: str
    revision: str | None
    tokenizer_family: str | None = None


@dataclass(frozen=True, kw_only=True)
class DraftVariant:
    """A variant that has a draft model; the baseline, which every experiment has, is not listed.

    window: tokens that are drafted at a time.
    """

    name: str
    method: str
    draft: Model
    window: int | None


@dataclass(frozen=True, kw_only=True)
class Servers:
    """The servers of the experiment.

    max_model_len: the most tokens of a prompt with its output.
    slot_devices: devices of a node for each server. lnc: physical cores in a logical NeuronCore.
    """

    release: str
    target: Model
    max_num_seqs: int
    variants: tuple[DraftVariant, ...]
    max_model_len: int | None = None
    slot_devices: int | None = None
    lnc: int | None = None
    instance_type: str | None = None


@dataclass(frozen=True, kw_only=True)
class TrafficClass:
    """A prompt class. cases: its prompt files. weight: percent of the output tokens."""

    name: str
    cases: tuple[str, ...] = ()
    weight: float | None = None


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """The requests that are measured.

    has_tools: whether a prompt offers the model tools to call.
    concurrency: numbers of requests in flight. requests_per_second: mean rates of arrivals. Each
        number in either is a load of its own.
    input_lengths: prompts are padded or cut to each of these numbers of tokens; empty: to none.
    longest_prompt: how many tokens the longest prompt has with the chat template; None: unknown, or
        prompts are padded or cut.
    output_tokens: the most output tokens per request.
    """

    classes: tuple[TrafficClass, ...]
    has_tools: bool
    concurrency: tuple[int, ...]
    requests_per_second: tuple[float, ...]
    input_lengths: tuple[int, ...]
    longest_prompt: int | None
    output_tokens: int


@dataclass(frozen=True, kw_only=True)
class NodePrice:
    """The price of one node in USD per hour. as_of: the day, YYYY-MM-DD."""

    usd_per_hour: float
    as_of: str


@dataclass(frozen=True, kw_only=True)
class AwsSection:
    """Where in AWS the experiment runs, who has access, and what it may cost.

    budget_usd: text if the answer is not a number; the check of the file then refuses it.
    """

    region: str
    zone: str
    capacity: str
    access_cidrs: tuple[str, ...]
    admin_arns: tuple[str, ...]
    email: str
    price: NodePrice | None
    budget_usd: float | str


@dataclass(frozen=True, kw_only=True)
class NewExperiment:
    """The content of a new experiment file.

    run_id: the earlier run from which servers or traffic are taken; None: there is none.
    serves_published_pair: whether target and draft are those of the published benchmark.
    prompts_dir: the folder of the prompt classes, relative to the experiment file's folder.
    """

    name: str
    run_id: str | None
    serves_published_pair: bool
    servers: Servers
    prompts_dir: str
    traffic: Traffic
    aws: AwsSection


def new_experiment(
    answers: Mapping[str, str],
    *,
    cases: Sequence[Case],
    run: Run | None,
    price: NodePrice | None,
    prompts_dir: str,
) -> NewExperiment:
    """Return the content of a new experiment file.

    answers: the user's answers to all `QUESTIONS`, by flag (`--region`).
    cases: the experiment's prompt files.
    run: an earlier run, whose traffic is measured again, on servers like that run's if these had
        Neuron devices; None: there is none.
    """
    facts = neuron_facts(run)
    servers = _servers_like(facts, _best_variant(run)) if facts else _servers_of(answers)
    return NewExperiment(
        name=answers["--name"],
        run_id=run.result.run_id if run else None,
        serves_published_pair=facts is None and _names_published_pair(servers),
        servers=servers,
        prompts_dir=prompts_dir,
        traffic=_traffic(cases, run),
        aws=_aws_section(answers, price),
    )


def neuron_facts(run: Run | None) -> ServingFacts | None:
    """Return the facts of the run's servers; None: they had no Neuron devices, or are unknown."""
    facts = run.result.serving if run else None
    return facts if facts and facts.platform == "neuron" else None


def _best_variant(run: Run | None) -> str:
    """Return the best variant of the run's search; empty: no search, or it measured none."""
    return run.search.best if run and run.search else ""


def _servers_of(answers: Mapping[str, str]) -> Servers:
    """Return servers of the target and the draft that the answers name."""
    target, draft = answers["--target"], answers["--draft"]
    family = _common_family(target, draft)
    variant = DraftVariant(
        name="", method="fused_draft", draft=_model(draft, family=family), window=7
    )
    return Servers(
        release="neuron-2.26.1",
        target=_model(target, family=family),
        max_num_seqs=4,
        variants=(variant,),
    )


def _common_family(target: str, draft: str) -> str:
    """Return the tokenizer family of two models, one of which the catalogue may know.

    The question for the draft says that it must have the target's tokenizer, so its answer does.
    """
    both = (catalog().models.get(name) for name in (target, draft))
    families = (facts.tokenizer_family for facts in both if facts)
    return next(families, target.partition("/")[2].lower())


def _names_published_pair(servers: Servers) -> bool:
    names = (servers.target.name, *(variant.draft.name for variant in servers.variants))
    return names == (PUBLISHED_TARGET, PUBLISHED_DRAFT)


def _servers_like(facts: ServingFacts, best: str) -> Servers:
    """Return servers like those of an earlier run, with the same target and draft models.

    best: the variant to take over as the only one with a draft model; empty: take over all.
    """
    return Servers(
        release=facts.release,
        target=_model(facts.target_model),
        max_num_seqs=facts.max_num_seqs,
        variants=tuple(
            _variant(name, decoding.draft, decoding)
            for name, decoding in facts.decoding.items()
            if decoding.draft and best in ("", name)
        ),
        max_model_len=facts.max_model_len,
        slot_devices=facts.slot_devices,
        lnc=facts.lnc,
        instance_type=facts.instance_type,
    )


def _variant(name: str, draft: str, decoding: Decoding) -> DraftVariant:
    return DraftVariant(
        name=name, method=decoding.method, draft=_model(draft), window=decoding.window
    )


def _model(name: str, *, family: str | None = None) -> Model:
    is_known = name in catalog().models
    return Model(
        name=name,
        revision=_REVISIONS.get(name),
        tokenizer_family=None if is_known else family,
    )


def _traffic(cases: Sequence[Case], run: Run | None) -> Traffic:
    """Return the traffic of an earlier run; without one, that of all prompts in `cases`.

    `cases` also give what the run has not recorded: tools, and a limit of output tokens.
    """
    blocks = run.blocks if run else ()
    loads = [block.load for block in blocks]
    requests = [request for block in blocks for request in block.requests]
    input_lengths = _each_once(load.input_tokens for load in loads)
    longest_prompt = _largest(request.number_input_tokens for request in requests)
    return Traffic(
        classes=_measured_classes(run) if run and blocks else _all_classes(cases),
        has_tools=any(prompt.tools for case in cases for prompt in case.prompts),
        concurrency=_each_once(load.in_flight for load in loads),
        requests_per_second=_each_once(load.arrivals_per_second for load in loads),
        input_lengths=input_lengths,
        longest_prompt=None if input_lengths else longest_prompt,
        output_tokens=_largest(request.number_output_tokens for request in requests)
        or _most_output_tokens(cases),
    )


def _each_once(values: Iterable[Number | None]) -> tuple[Number, ...]:
    return tuple(sorted({value for value in values if value is not None}))


def _largest(values: Iterable[int | None]) -> int | None:
    """Return the largest number above 0; None: there is none."""
    return max((value for value in values if value), default=None)


def _most_output_tokens(cases: Sequence[Case]) -> int:
    return max(prompt.max_tokens or _USUAL_TOKENS for case in cases for prompt in case.prompts)


def _all_classes(cases: Sequence[Case]) -> tuple[TrafficClass, ...]:
    return tuple(TrafficClass(name=name) for name in sorted({case.prompt_class for case in cases}))


def _measured_classes(run: Run) -> tuple[TrafficClass, ...]:
    weights = _weights(run)
    return tuple(
        TrafficClass(name=name, cases=_case_names(run, name), weight=weights.get(name))
        for name in sorted({block.prompt_class for block in run.blocks})
    )


def _case_names(run: Run, prompt_class: str) -> tuple[str, ...]:
    return tuple(sorted({b.case for b in run.blocks if b.prompt_class == prompt_class}))


def _weights(run: Run) -> Mapping[str, float]:
    """Return each prompt class's percentage of the output tokens.

    The mapping is empty if all classes have the same percentage, or if the run has no weights.
    """
    shares = run.result.class_weights
    if len(set(shares.values())) < 2:
        return {}
    return {name: round(100 * share, 1) for name, share in shares.items()}


def _aws_section(answers: Mapping[str, str], price: NodePrice | None) -> AwsSection:
    cidr, arn = answers["--access-cidr"], answers["--admin-arn"]
    return AwsSection(
        region=answers["--region"],
        zone=answers["--zone"],
        capacity=answers["--capacity"],
        access_cidrs=(cidr,) if cidr else (),
        admin_arns=(arn,) if arn else (),
        email=answers["--email"],
        price=price,
        budget_usd=_number_if_it_is_one(answers["--accelerator-budget-usd"]),
    )


def _number_if_it_is_one(text: str) -> float | str:
    return float(text) if text.replace(".", "", 1).isdecimal() else text
