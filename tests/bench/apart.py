"""Measurements in a process of their own, with one thread, that cannot disturb others or outlive their deadline."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from .measure import say

Measurement = Callable[..., Mapping[str, Any]]
# Two threads that share a busy machine wait for each other. What is asked of networks is refused at once.
_ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "http_proxy": "http://127.0.0.1:9",
    "https_proxy": "http://127.0.0.1:9",
}


def measured(module: str, name: str, arguments: Sequence[object], deadline: float) -> dict[str, Any] | None:
    """Return what `NAME` of a module of benchmarks found; None, with a line on why, if it cannot run here."""
    command = [sys.executable, "-m", f"{__package__}.{module}", name, *map(str, arguments)]
    child = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | _ENVIRONMENT,
    )
    try:
        out, errors = child.communicate(timeout=deadline)
    except subprocess.TimeoutExpired:
        say(f"{name} {' '.join(map(str, arguments))} is left out: it takes longer than {deadline:.0f} s")
        return None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    if child.returncode != 0:
        why = errors.strip().splitlines()[-1] if errors.strip() else f"it ended with status {child.returncode}"
        say(f"{name} {' '.join(map(str, arguments))} is left out: {why}")
        return None
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def main(measurements: Mapping[str, Measurement], arguments: Sequence[str]) -> None:
    """Run one of a module's measurements, in the child, and print what it finds."""
    name, *rest = arguments
    print(json.dumps(measurements[name](*rest)), flush=True)
    os._exit(0)  # threads that a library leaves behind have no say in when this process ends
