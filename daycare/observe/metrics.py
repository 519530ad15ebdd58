"""Metrics in Prometheus's text format, version 0.0.4: counters, gauges and histograms with few labels.

Labels are kinds, connectors, models, tools and outcomes, never people or what they say. A family keeps so many sets of
labels at most; what comes beyond counts under `other`.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from daycare.base.secrecy import without_secrets

SERIES_MAX: Final = 200  # of one family
_LABEL_MAX_CHARS: Final = 100
OTHER: Final = "other"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
# From what is noticed to what is given up, in seconds.
SHORT_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
LONG_S: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)

Labels = tuple[str, ...]


class Family:
    """One metric with all its sets of labels."""

    kind = "gauge"

    def __init__(self, name: str, help_: str, labels: Sequence[str] = ()) -> None:
        self.name = name
        self.help = help_
        self.labels = tuple(labels)

    def samples(self) -> Iterable[tuple[str, Sequence[tuple[str, str]], float]]:
        """Return (suffix of the name, labels, value) of each line."""
        raise NotImplementedError

    def _bounded(self, labels: Labels, known: dict[Labels, object] | dict[Labels, float]) -> Labels:
        if labels in known or len(known) < SERIES_MAX:
            return labels
        return (OTHER,) * len(labels)


class Counter(Family):
    """What only grows, from the start of the process."""

    kind = "counter"

    def __init__(self, name: str, help_: str, labels: Sequence[str] = ()) -> None:
        super().__init__(name, help_, labels)
        self._values: dict[Labels, float] = {} if labels else {(): 0.0}

    def add(self, *labels: str, amount: float = 1.0) -> None:
        """Add to one set of labels."""
        if amount or labels in self._values:
            key = self._bounded(labels, self._values)
            self._values[key] = self._values.get(key, 0.0) + amount

    def samples(self) -> Iterable[tuple[str, Sequence[tuple[str, str]], float]]:
        """Return its lines."""
        for key, value in self._values.items():
            yield "", list(zip(self.labels, key, strict=True)), value


class Gauge(Family):
    """What is so now: made anew for each look."""

    def __init__(self, name: str, help_: str, labels: Sequence[str] = ()) -> None:
        super().__init__(name, help_, labels)
        self._values: dict[Labels, float] = {}

    def set(self, *labels: str, value: float) -> "Gauge":
        """Set one set of labels."""
        self._values[self._bounded(labels, self._values)] = float(value)
        return self

    def samples(self) -> Iterable[tuple[str, Sequence[tuple[str, str]], float]]:
        """Return its lines."""
        for key, value in self._values.items():
            yield "", list(zip(self.labels, key, strict=True)), value


class Total(Gauge):
    """A counter that is kept elsewhere."""

    kind = "counter"


class Histogram(Family):
    """How often something took how long, in seconds."""

    kind = "histogram"

    def __init__(self, name: str, help_: str, buckets: Sequence[float], labels: Sequence[str] = ()) -> None:
        super().__init__(name, help_, labels)
        self.buckets = tuple(buckets)
        self._values: dict[Labels, list[float]] = {}  # counts of each bucket, of all, and the sum

    def observe(self, value: float, *labels: str) -> None:
        """Count one."""
        key = self._bounded(labels, self._values)  # type: ignore[arg-type]
        row = self._values.get(key)
        if row is None:
            row = self._values[key] = [0.0] * (len(self.buckets) + 2)
        for at, edge in enumerate(self.buckets):
            if value <= edge:
                row[at] += 1
                break
        row[-2] += 1
        row[-1] += value

    def samples(self) -> Iterable[tuple[str, Sequence[tuple[str, str]], float]]:
        """Return its lines."""
        for key, row in self._values.items():
            own = list(zip(self.labels, key, strict=True))
            below = 0.0
            for at, edge in enumerate(self.buckets):
                below += row[at]
                yield "_bucket", [*own, ("le", _number(edge))], below
            yield "_bucket", [*own, ("le", "+Inf")], row[-2]
            yield "_sum", own, row[-1]
            yield "_count", own, row[-2]


def exposition(families: Iterable[Family]) -> str:
    """Return families as text."""
    lines: list[str] = []
    for family in families:
        lines.append(f"# HELP {family.name} {_escaped(family.help)}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        for suffix, labels, value in family.samples():
            shown = ",".join(f'{name}="{_label(text)}"' for name, text in labels)
            lines.append(f"{family.name}{suffix}{f'{{{shown}}}' if shown else ''} {_number(value)}")
    return "\n".join(lines) + "\n"


def _label(text: str) -> str:
    return _escaped(without_secrets(text)[:_LABEL_MAX_CHARS]).replace('"', '\\"')


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
