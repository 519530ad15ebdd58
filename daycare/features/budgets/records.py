"""What is kept of budgets: limits of paths, reservations of calls, and what was spent."""

import msgspec

from daycare.base.budget import Measure, Use


class BudgetRow(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody set for a path and all below it.

    `limits` by their names. `raises` are additions by `day` or month and the measure, such as `{"2026-11-21":
    {"day.usd": 2000000}}`. `set_by` is a user id, empty for the command line.
    """

    path: str
    limits: dict[str, int] = {}
    raises: dict[str, dict[str, int]] = {}
    set_by: str = ""
    updated_at: int = 0


class Ceiling(msgspec.Struct, frozen=True, kw_only=True):
    """What a path and all below it may use of one measure in one period: no call begins that may go above `most`.

    `key` is the day or the month. `limit` is what was set; `most` may be less for calls in the background.
    """

    path: str
    name: str
    key: str
    measure: Measure
    most: int
    limit: int


class BudgetStanding(msgspec.Struct, frozen=True):
    """How a ceiling stands: what was used, and what is reserved by calls that run."""

    ceiling: Ceiling
    used: int
    reserved: int
    asked: int = 0  # the most that the call may take which is to begin

    @property
    def reached(self) -> bool:
        """Whether the call may not begin: nothing is left, or not as much as it may take."""
        taken = self.used + self.reserved
        return taken >= self.ceiling.most or taken + self.asked > self.ceiling.most

    @property
    def used_up(self) -> bool:
        """Whether that stays so when all calls that run cost nothing."""
        return self.used >= self.ceiling.most or self.used + self.asked > self.ceiling.most


class NewReservation(msgspec.Struct, frozen=True, kw_only=True):
    """What a call may take at most, before it is made. `day` is that of its user."""

    path: str
    user: str
    day: str
    provider: str
    model: str
    most: Use


class Reserved(msgspec.Struct, frozen=True):
    """What came of it: the reservation's number, 0 if a ceiling was reached; and how all ceilings stood before."""

    no: int
    standings: tuple[BudgetStanding, ...]


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What one path has spent with one model in one day or month (`key`), for `payer` if somebody else asked for it.

    `unsettled` are calls cut off by a crash or a stop: they count in full as they were reserved, and are not in the
    other numbers. `unpriced` of the `calls` are of models without a known price, whose cost counts 0.
    """

    key: str
    path: str
    user: str
    provider: str
    model: str
    payer: str = ""
    calls: int = 0
    unpriced: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_micros: int = 0
    wall_ms: int = 0
    unsettled: int = 0
    unsettled_tokens: int = 0
    unsettled_micros: int = 0
    unsettled_ms: int = 0

    @property
    def use(self) -> Use:
        """All of it, as budgets count."""
        return Use(
            self.cost_micros + self.unsettled_micros,
            self.input_tokens + self.output_tokens + self.unsettled_tokens,
            self.calls + self.unsettled,
            self.wall_ms + self.unsettled_ms,
        )


class BudgetNews(msgspec.Struct):
    """What a commit has changed: `limits` that were set, or `room` that was reserved and given back."""

    limits: bool = False
    room: bool = False
