"""The daemon of the campaigns: its model acts out what it reads, and its tools write down what they did."""

import os
import tempfile
from pathlib import Path

from daycare.testing.daemon_process import ThrowawayHome

REPOSITORY = Path(__file__).resolve().parents[2]
_MUTANT = ("DAYCARE_MUTANT", "DAYCARE_MUTANT_MARK")  # see tests.mutants
_CONFIG = """\
[models]
default = "mind/errands"

[providers.mind]
kind = "mind"

[plugins]
load = ["daycare.testing.tools:plugin", "tests.crash.MIND:plugin"]
"""


class Home(ThrowawayHome):
    """A home with the tools' ledger beside it. `mind` is the module here whose plugin brings the model."""

    def __init__(self, mind: str = "mind") -> None:
        folder = Path(tempfile.mkdtemp(prefix="dc-crash-"))
        self.ledger_file = folder / "tools"
        own = {
            "PYTHONPATH": os.environ.get("PYTHONPATH") or str(REPOSITORY),
            "DAYCARE_TEST_LEDGER": str(self.ledger_file),
            "DAYCARE_CRASH_TRIAL": "1",
        }
        mutant = {name: os.environ[name] for name in _MUTANT if name in os.environ}
        super().__init__(folder, _CONFIG.replace("MIND", mind), own | mutant)
