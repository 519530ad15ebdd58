"""All attacks on one daemon, and figures of what came of them."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.attacks import matrix, strangers
from tests.attacks.stage import AttackStage, staged


def run(seed: int, *, routes: int | None = None, guesses: int = 10_000, slow: int = 200) -> dict[str, Any]:
    """Attack; `harm` is what got through, and has to be empty. With `routes`, at so many of them."""
    with TemporaryDirectory() as folder, staged(Path(folder), seed) as stage:
        known = matrix.routes(stage)
        tried = known if routes is None else stage.rng.sample(known, min(routes, len(known)))
        found: dict[str, Any] = {
            "seed": seed,
            "matrix": matrix.attack(stage, tried),
            "rebinding": strangers.rebinding(stage),
            "cross_site": strangers.cross_site(stage),
            "smuggling": strangers.smuggling(stage),
            "slow_loris": strangers.slow_loris(stage, slow),
            "revoked": strangers.revoked(stage),
            "guessing": strangers.guessing(stage, guesses),
        }
        found["secrets"] = _secrets(stage)
    found["harm"] = _harm(found)
    return found


def _secrets(stage: AttackStage) -> dict[str, Any]:
    log = (stage.network.home / "daycare.log").read_text()
    told = stage.told_secrets + [f"{name} in the log" for name, secret in stage.secrets.items() if secret in log]
    return {"known": len(stage.secrets), "answers": stage.answers, "log_chars": len(log), "told": told}


def _harm(found: dict[str, Any]) -> list[str]:
    harm = [f"leak: {each}" for each in found["matrix"]["leaks"]] + [
        f"error: {each}" for each in found["matrix"]["errors"]
    ]
    for name in ("rebinding", "cross_site", "smuggling", "revoked"):
        harm += [f"{name}: {each}" for each in found[name]["through"]]
    if found["slow_loris"]["others_refused"]:
        harm.append("slow loris: others were refused")
    if set(found["guessing"]["statuses"]) - {"401", "429"} or found["guessing"]["right_token"] != 200:
        harm.append(f"guessing: {found['guessing']}")
    return harm + [f"secret: {each}" for each in found["secrets"]["told"]]
