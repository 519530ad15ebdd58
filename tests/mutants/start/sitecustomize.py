"""Imported first by each Python whose `PYTHONPATH` has this folder: plants the fault that `DAYCARE_MUTANT` names."""

import os

if os.environ.get("DAYCARE_MUTANT"):
    from tests.mutants.plant import install

    install(os.environ["DAYCARE_MUTANT"])
