"""Lists how a variant can be judged against the baseline, and what each judgement means."""

from enum import StrEnum


class Judgement(StrEnum):
    """The outcome of comparing a variant with the baseline; the files of a run contain its text.

    The members are in the order of `rank`, from 0. The headline of a report is about the comparison
    whose judgement has the lowest rank. So an undecided comparison comes before a lost one, because
    its variant may still be the best.

    is_decided: whether the comparison settles which of the two to serve: the variant if it is
        cheaper, else the baseline.
    serves_variant: whether the variant is the one to serve.
    is_on_cost: whether the judgement is about the cost of a token, not about limits.
    tone: `good`, `bad`, or `open` for neither.
    """

    is_decided: bool
    serves_variant: bool
    is_on_cost: bool
    tone: str

    CHEAPER = "cheaper per token", True, True, True, "good"
    WITHIN_LIMITS = "within the limits", False, False, False, "good"
    INCONCLUSIVE = "inconclusive", False, False, False, "open"
    NO_DIFFERENCE = "no difference", True, False, True, "open"
    MORE_EXPENSIVE = "more expensive", True, False, True, "bad"
    OUTSIDE_LIMITS = "outside the limits", True, False, False, "bad"

    def __new__(
        cls,
        text: str,
        is_decided: bool,  # noqa: FBT001 (a row of the table above)
        serves_variant: bool,  # noqa: FBT001
        is_on_cost: bool,  # noqa: FBT001
        tone: str,
    ) -> "Judgement":
        member = str.__new__(cls, text)
        member._value_ = text
        member.is_decided, member.serves_variant = is_decided, serves_variant
        member.is_on_cost, member.tone = is_on_cost, tone
        return member

    @classmethod
    def earlier_texts(cls) -> "dict[str, Judgement]":
        """Return the judgement for each text that only earlier versions wrote into files.

        Until 2026-11-23, `dearer` was written for `more expensive`.
        """
        return {"dearer": cls.MORE_EXPENSIVE}

    @classmethod
    def _missing_(cls, value: object) -> "Judgement | None":
        return cls.earlier_texts().get(value) if isinstance(value, str) else None

    @property
    def rank(self) -> int:
        return list(Judgement).index(self)
