"""No path leads out of a workspace, through no door, and whoever is killed while writing leaves old or new."""

from pathlib import Path

from tests.workspaces.hostile import escapes, kills, race

SEED = 20_261


def test_hostile_paths_lead_nowhere_through_every_door(tmp_path: Path) -> None:
    tried, found = escapes(tmp_path, SEED, 150)
    assert tried > 900 and not found, (SEED, found)


def test_who_swaps_a_folder_for_a_link_gets_nothing_out_or_in(tmp_path: Path) -> None:
    assert race(tmp_path, 1_500)[1] == []


def test_a_killed_write_leaves_the_old_or_the_new_text(tmp_path: Path) -> None:
    assert kills(tmp_path, 4, SEED)[1] == [], SEED
