"""Learn `daycare/rules/weights.toml` from the labelled texts: `python -m tests.rules.train_weights`.

A linear support vector machine over the features of `daycare.rules.weighing`, by dual coordinate descent. A danger
counts by its heaviest passage, a harmless text by all of its passages; texts are also read beside each other.
"""

import json
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from daycare.rules import weighing
from daycare.rules.meaning import MeaningReader
from daycare.rules.normal import Copy, bare, chunks, folded, whole

CASES: Final = Path(__file__).parent.parent / "data" / "suspicious.jsonl"
WEIGHTS: Final = Path(weighing.__file__).parent / "weights.toml"
HOME: Final = Path(__file__).parent.parent.parent
LIBRARY: Final = Path(json.__file__).parent.parent  # of Python: pages and programs on everything
PAGES: Final = (
    *((HOME / "doc", "*.md"), (HOME / "plugins", "*.py"), (HOME / "daycare/store", "*.py")),
    *((LIBRARY / "pydoc_data", "topics.py"), (LIBRARY / "email", "*.py"), (LIBRARY / "http", "*.py")),
    *((LIBRARY, "ssl.py"), (LIBRARY, "smtplib.py"), (LIBRARY, "getpass.py"), (LIBRARY, "argparse.py")),
    *((LIBRARY, "subprocess.py"), (LIBRARY, "imaplib.py"), (LIBRARY, "webbrowser.py"), (LIBRARY, "shutil.py")),
)
PAGE_MAX_CHARS: Final = 150_000
SEED: Final = 7
COST: Final = 0.01  # of an error, beside the squares of the weights
SHIFT: Final = -0.03  # what a danger may weigh less: what is missed costs more than a false alarm
ROUNDS: Final = 30
SEEN_MIN: Final = 5  # texts that have a feature which is learned
WEIGHT_MIN: Final = 0.015
KEPT: Final = 1_000  # features; each takes time to look for

Passage = frozenset[str]


class Passages(MeaningReader):
    """Reads a text and keeps the features of its passages."""

    def __init__(self, text: str) -> None:
        super().__init__(plain(text))
        self.found: list[Passage] = []
        for _ in self.read():
            pass

    def _weigh(self, rows: list[weighing.Row]) -> weighing.Weight:
        if super()._weigh(rows) is not weighing.HARMLESS:
            self.found.append(frozenset(weighing.scales().names(rows)))
        return weighing.HARMLESS  # so that what is learned does not depend on what was


def plain(text: str) -> str:
    """Return the text as the scanner reads it."""
    copy = Copy()
    for chunk in chunks(whole(text)):
        copy.add(folded(bare(chunk)))
    return copy.view().text


def samples(cases: Iterable[dict[str, str]]) -> list[tuple[list[Passage], bool]]:
    """Return the passages of texts and whether they are a danger, each text by itself and beside another."""
    chance = random.Random(SEED)
    texts = {label: [case["text"] for case in cases if case["label"] == label] for label in ("danger", "clean")}
    clean, dangers = texts["clean"], texts["danger"]
    found = [(text, True) for text in dangers] + [(text, False) for text in clean]
    found += [(case["text"], False) for case in cases if case["label"] == "warning"]
    found += [(" ".join(chance.sample(clean, 2)), False) for _ in clean]
    found += [(chance.choice(clean) + " " + text, True) for text in chance.sample(dangers, len(dangers) // 2)]
    return [(passages, danger) for text, danger in found if (passages := Passages(text).found)]


def ordinary() -> list[tuple[list[Passage], bool]]:
    """Return the passages of long harmless texts: our own pages and programs, and Python's."""
    files = sorted(page for place, kind in PAGES for page in place.rglob(kind))
    return [(Passages(file.read_text(encoding="utf-8")[:PAGE_MAX_CHARS]).found, False) for file in files]


def learn(data: Sequence[tuple[list[Passage], bool]]) -> tuple[dict[str, float], float]:
    """Return the weights and the bias."""
    seen = Counter(feature for passages, _ in data for feature in frozenset().union(*passages))
    kept = {feature for feature, count in seen.items() if count >= SEEN_MIN}
    harmless = [passage & kept for passages, danger in data if not danger for passage in passages]
    dangers = [frozenset().union(*passages) & kept for passages, danger in data if danger]
    weights, _ = separate(dangers, harmless)
    heaviest = [
        max((passage & kept for passage in passages), key=lambda passage: sum(weights.get(name, 0) for name in passage))
        for passages, danger in data
        if danger
    ]
    weights, _ = separate(heaviest, harmless)
    best = set(sorted(weights, key=lambda name: (-abs(weights[name]) * seen[name] ** 0.5, name))[:KEPT])
    return separate([passage & best for passage in heaviest], [passage & best for passage in harmless])


def separate(dangers: Sequence[Passage], harmless: Sequence[Passage]) -> tuple[dict[str, float], float]:
    """Return the weights that part the one from the other with the widest margin (squared hinge loss)."""
    chance = random.Random(SEED)
    rows = [(sorted(passage), 1) for passage in dangers] + [(sorted(passage), -1) for passage in harmless]
    weights: dict[str, float] = {feature: 0.0 for names, _ in rows for feature in names}
    bias, alphas, diagonal = 0.0, [0.0] * len(rows), 1 / (2 * COST)
    for _ in range(ROUNDS):
        order = list(range(len(rows)))
        chance.shuffle(order)
        for number in order:
            names, sign = rows[number]
            slope = sign * (bias + sum(map(weights.__getitem__, names))) - 1 + alphas[number] * diagonal
            alpha = max(0.0, alphas[number] - slope / (len(names) + 1 + diagonal))
            step = (alpha - alphas[number]) * sign
            if step:
                alphas[number] = alpha
                bias += step
                for name in names:
                    weights[name] += step
    return weights, bias


def write(weights: dict[str, float], bias: float) -> None:
    """Write the weights that matter."""
    kept = {name: round(weight, 3) for name, weight in sorted(weights.items()) if abs(weight) >= WEIGHT_MIN}
    lines = [
        "# Learned by tests/rules/train_weights.py from the labelled texts: what classes of words weigh, alone or near",
        "# each other; `!` marks those that are told.",
        "",
        f"bias = {bias - SHIFT:.3f}",
        "",
        "[weights]",
        *(f'"{name}" = {weight}' for name, weight in kept.items()),
    ]
    WEIGHTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    cases = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    write(*learn(samples(cases) + ordinary()))
