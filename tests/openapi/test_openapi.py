"""A short run of the campaign; `python -m tests.openapi` runs long ones."""

from tests.chance import SEED, WHOLE
from tests.openapi import campaign


def test_no_answer_is_undescribed_or_a_defect() -> None:
    print(f"SEED={SEED}")
    found = campaign.run(seed=SEED, examples=100 if WHOLE else 3, phases="fuzzing", deadline_s=600)
    assert found["failures"] == [] and found["errors"] == [], found["output"]
    assert found["operations"]["tested"] > 100 and found["test_cases"]["generated"] > 300
