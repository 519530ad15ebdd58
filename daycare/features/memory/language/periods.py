"""Days, weeks, months and years that words stand for, counted from the day on which they were said."""

from datetime import date, timedelta
from typing import Final, Literal, NamedTuple

Unit = Literal["day", "week", "weekend", "month", "season", "year"]
Which = Literal["last", "this", "next", ""]

SEASONS: Final = {"spring": 3, "summer": 6, "autumn": 9, "winter": 12}  # the first of its three months
YEAR_MIN, YEAR_MAX = 1900, 2100  # of a date in a conversation; other numbers are no years
_MAX_AGO: Final = 200 * 366  # days


class Period(NamedTuple):
    """A stretch of days, the last not included."""

    unit: Unit
    begin: date
    end: date

    @property
    def iso(self) -> str:
        """The period as ISO 8601 writes it; weekends and seasons are from/to."""
        if self.unit == "day":
            return self.begin.isoformat()
        if self.unit == "week":
            year, week, _ = self.begin.isocalendar()
            return f"{year}-W{week:02}"
        if self.unit == "weekend":
            return f"{self.begin}/{self.end - timedelta(days=1)}"
        if self.unit == "month":
            return f"{self.begin:%Y-%m}"
        if self.unit == "season":
            return f"{self.begin:%Y-%m}/{self.end - timedelta(days=1):%Y-%m}"
        return f"{self.begin:%Y}"


def day(at: date) -> Period:
    """Return one day."""
    return Period("day", at, at + timedelta(days=1))


def week(at: date) -> Period:
    """Return the week, Monday to Sunday, of a day."""
    monday = at - timedelta(days=at.weekday())
    return Period("week", monday, monday + timedelta(days=7))


def weekend(at: date) -> Period:
    """Return Saturday and Sunday of a day's week."""
    saturday = at + timedelta(days=5 - at.weekday())
    return Period("weekend", saturday, saturday + timedelta(days=2))


def month(year: int, number: int) -> Period:
    """Return a month; `number` may lie outside of 1 to 12 and then reaches into other years."""
    year, number = year + (number - 1) // 12, (number - 1) % 12 + 1
    after = date(year + number // 12, number % 12 + 1, 1)
    return Period("month", date(year, number, 1), after)


def season(year: int, name: str) -> Period:
    """Return a season that begins in a year: a winter ends in the next."""
    first = SEASONS[name]
    return Period("season", month(year, first).begin, month(year, first + 2).end)


def year(number: int) -> Period:
    """Return a whole year."""
    return Period("year", date(number, 1, 1), date(number + 1, 1, 1))


def of(year: int, number: int, at: int) -> Period | None:
    """Return the day of a written date, None if no calendar has it."""
    if not YEAR_MIN <= year <= YEAR_MAX:
        return None
    try:
        return day(date(year, number, at))
    except ValueError:
        return None


class SaidAt(NamedTuple):
    """When something was said, and whether it speaks of the past (None: it does not show)."""

    today: date
    past: bool | None

    def month(self, number: int, which: Which = "") -> Period:
        """Return the month of that name that is meant."""
        here = month(self.today.year, number)
        if which == "next":
            return here if here.begin > self.today else month(self.today.year + 1, number)
        if which == "last" or (self.past and not which):
            past = here.end <= self.today if which else here.begin <= self.today
            return here if past else month(self.today.year - 1, number)
        if which == "this":
            return here
        return here if here.end > self.today else month(self.today.year + 1, number)

    def date(self, number: int, at: int) -> Period | None:
        """Return the day of that date that is meant: the last one in a sentence on the past, else the next."""
        here = of(self.today.year, number, at)
        if here and self.past and here.begin > self.today:
            return of(self.today.year - 1, number, at)
        if here and self.past is False and here.end <= self.today:
            return of(self.today.year + 1, number, at)
        return here or of(self.today.year + 1, number, at)  # 29 February

    def day_of_month(self, at: int) -> Period | None:
        """Return the day of that number that is meant."""
        for shift in (0, -1, -2) if self.past else (0, 1, 2):
            there = month(self.today.year, self.today.month + shift).begin
            found = of(there.year, there.month, at)
            if found and (found.begin <= self.today if self.past else found.begin >= self.today):
                return found
        return None

    def weekday(self, number: int, which: Which = "") -> Period:
        """Return the weekday (Monday is 0) that is meant."""
        ahead = (number - self.today.weekday()) % 7
        if which == "last" or (self.past and not which):
            return day(self.today + timedelta(days=ahead - 7))
        if which == "next":  # that of the next week, as a rule; "next Monday" is at most a week away
            return day(week(self.today + timedelta(days=7)).begin + timedelta(days=number))
        if which == "this":
            return day(week(self.today).begin + timedelta(days=number))
        return day(self.today + timedelta(days=ahead or 7))

    def season(self, name: str, which: Which = "") -> Period:
        """Return the season that is meant."""
        around = [season(self.today.year + shift, name) for shift in (-2, -1, 0, 1)]
        if which == "last":
            return [one for one in around if one.end <= self.today][-1]
        if which == "next":
            return next(one for one in around if one.begin > self.today)
        if self.past:
            return [one for one in around if one.begin <= self.today][-1]
        return next(one for one in around if one.end > self.today)

    def near(self, unit: Unit, which: Which) -> Period:
        """Return the last, this or next week, weekend, month or year."""
        return self.away(unit, {"last": -1, "this": 0, "next": 1, "": 0}[which])

    def away(self, unit: Unit, count: int) -> Period:
        """Return what lies so many units ahead (or back), no more exact than the unit."""
        if unit in ("day", "week", "weekend"):
            days = max(-_MAX_AGO, min(_MAX_AGO, count * (1 if unit == "day" else 7)))
            at = self.today + timedelta(days=days)
            return {"day": day, "week": week, "weekend": weekend}[unit](at)
        if unit == "month":
            return month(self.today.year, self.today.month + max(-2_400, min(2_400, count)))
        return year(max(YEAR_MIN, min(YEAR_MAX, self.today.year + count)))
