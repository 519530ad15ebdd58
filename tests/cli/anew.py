"""The program `daycare` in an interpreter that starts anew, for `tests.program`, which spares that otherwise."""

import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    os.execv(sys.executable, [sys.executable, "-m", "daycare", *sys.argv[1:]])
