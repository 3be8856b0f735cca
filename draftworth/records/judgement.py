"""The judgements of a variant against the baseline in one traffic, and what each of them means."""

from enum import StrEnum


class Judgement(StrEnum):
    """What is judged of a variant; the text stands in files. The members are in order of rank.

    A headline is about the comparison whose judgement has the lowest `rank`: a user may choose the
    best variant, and one that is not decided may be the best.

    is_decided: whether it names a server to keep: the variant if it is cheaper, else the baseline.
    serves_variant: whether a service should be served by the variant.
    is_on_cost: whether it is about the cost of a token. tone: `good`, `bad`, or `open` for neither.
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
        """Return the texts of files of earlier versions: until 2026-11-23, `dearer`."""
        return {"dearer": cls.MORE_EXPENSIVE}

    @classmethod
    def _missing_(cls, value: object) -> "Judgement | None":
        return cls.earlier_texts().get(value) if isinstance(value, str) else None

    @property
    def rank(self) -> int:
        return list(Judgement).index(self)
