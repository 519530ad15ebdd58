"""Several requests approved with one yes: each by itself, and nothing that was not seen or that others have changed."""

import pytest

from daycare.base.errors import InvalidError
from daycare.features.approvals.records import Approval, ApprovalState
from daycare.features.memory.documents.rows import DocumentRows
from tests.approvals.story import (
    ANN,
    Scene,
    button,
    memory_of,
    overwrite,
    propose,
    say,
    service_of,
    settle,
    suspicious,
)


async def approve(scene: Scene, *requests: Approval) -> list[str]:
    """Approve these together; return what became of each."""
    done = await service_of(scene.house).approve_each([(it.no, it.seen) for it in requests], ANN)
    return [str(it.state) if error is None else error.code for it, error in done]


async def proposed(scene: Scene, *texts: str, verb: str = "append") -> list[Approval]:
    numbers = [await propose(scene, text, step, verb=verb) for step, text in enumerate(texts)]
    return [await service_of(scene.house).get(no) for no in numbers]


async def test_several_additions_to_one_document_are_all_made(autojump_clock: object, scene: Scene) -> None:
    """Each of them changes what the others build on; it is the same yes that does it."""
    await proposed(scene, "- one\n", "- two\n", "- three\n")
    await say(scene.house, "1", "/approvals")
    await settle(scene.house)
    said = await say(scene.house, "2", button(scene.pigeon, "Approve 3 of memory"))
    assert said.count("Approved: request") == 3
    assert await scene.memory() == "- one\n- two\n- three\n"
    assert len(await scene.house.store.of(DocumentRows).history(memory_of(scene.agent))) == 3


async def test_what_somebody_else_changed_is_not_touched(autojump_clock: object, scene: Scene) -> None:
    first, second = await proposed(scene, "- one\n", "- two\n")
    await overwrite(scene.house, memory_of(scene.agent), "- mine\n")
    assert await approve(scene, first, second) == ["APPROVAL_CHANGED", "APPROVAL_CHANGED"]
    assert await scene.memory() == "- mine\n"


async def test_one_text_in_the_place_of_another_needs_a_look_between(autojump_clock: object, scene: Scene) -> None:
    first, second = await proposed(scene, "- one\n", "- two\n", verb="write")
    assert await approve(scene, first, second) == ["approved", "APPROVAL_CHANGED"]
    assert await scene.memory() == "- one\n"


async def test_an_addition_that_was_edited_meanwhile_is_not_what_was_seen(autojump_clock: object, scene: Scene) -> None:
    first, second = await proposed(scene, "- one\n", "- two\n")
    await service_of(scene.house).decide(second.no, "edit", ANN, second.seen, text="- three\n")
    assert await approve(scene, first, second) == ["approved", "APPROVAL_CHANGED"]
    assert await scene.memory() == "- one\n"


async def test_flagged_ones_and_mixed_kinds_are_refused(autojump_clock: object, scene: Scene) -> None:
    [first] = await proposed(scene, "- one\n")
    other = await service_of(scene.house).get(await propose(scene, "- x\n", 1, kind="identity"))
    scene.house.daemon.approvals.scan = suspicious
    flagged = await service_of(scene.house).get(await propose(scene, "- a@b.org\n", 2))
    for pair in ((first, other), (first, flagged), (flagged,)):
        with pytest.raises(InvalidError, match="one by one"):
            await approve(scene, *pair)
    assert first.state is ApprovalState.PENDING and await scene.memory() is None


async def test_what_did_not_arrive_is_no_part_of_a_batch(autojump_clock: object, scene: Scene) -> None:
    await proposed(scene, "- one\n", "- two\n")
    scene.pigeon.enqueue(1_000.0)
    await propose(scene, "- nobody has seen this\n", 3)
    assert [it.no for it in await service_of(scene.house).batch("memory", ANN, "ann")] == [1, 2]
    await service_of(scene.house).decide(2, "edit", ANN, "", text="- edited in a terminal\n")
    assert [it.no for it in await service_of(scene.house).batch("memory", ANN, "ann")] == [1]
