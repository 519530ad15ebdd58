"""A claim: what a clause says as attribute and value, which later ones can be compared with."""

from typing import NamedTuple

from daycare.features.memory.facts.learned import Kind


class Claim(NamedTuple):
    """What a clause claims. `of` is whose attribute it is: "" for the speaker, else such as "my sister" or "Theo"."""

    attribute: str
    value: str
    kind: Kind = "fact"
    of: str = ""
    confidence: float = 0.9
    ended: bool = False  # it was so until now
