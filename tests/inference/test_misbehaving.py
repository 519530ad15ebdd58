"""Servers that misbehave, met by a whole turn: what a person reads, what is kept, and what a model is shown again."""

from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from daycare.agent.steps import MODEL_STEPS_MAX
from daycare.base.errors import UnavailableError
from daycare.base.secrecy import SECRET, hide
from daycare.base.veil import Veil
from daycare.config import Config, ModelsSection, ProviderSection
from daycare.inference.thoughts import Spoken, spoken
from daycare.plugin import TextDelta
from daycare.testing.anthropic_server import FakeAnthropic
from daycare.testing.daemon import open_daemon
from daycare.testing.misbehaving import PROBES, Probe
from daycare.testing.model_server import FakeModelServer, ScriptedCall
from daycare.testing.openai_server import FakeOpenAI
from tests.actors.helpers import history
from tests.cost import cost, holds
from tests.inference.pools import ASKED, DONE, Scripted, pool, refused


def _config(server: FakeModelServer, kind: str) -> Config:
    section = ProviderSection(kind=kind, base_url=server.base_url)
    return Config(models=ModelsSection(default="box/fake-large"), providers={"box": section})


@pytest.mark.parametrize("probe", PROBES.values(), ids=PROBES.keys())
async def test_a_person_reads_the_words_a_model_meant(tmp_path: Path, nursery: trio.Nursery, probe: Probe) -> None:
    async with FakeOpenAI.serve(nursery) as server:
        for answer in probe.answers:
            server.enqueue(answer)
        async with open_daemon(tmp_path, config=_config(server, "openai")) as house:
            with trio.fail_after(30):
                assert await house.talk("Is there tea?") == probe.words
            assert (await history(house))[-1] == ("assistant", probe.words)
            shown = "".join(str(event["text"]) for event in house.events("turn.delta"))
            assert "She asks" not in shown or probe is PROBES["thought-whose-beginning-is-missing"]
            assert house.events("turn.failed") == []
            await house.daemon.pool.aclose()


@pytest.mark.parametrize(
    "server_of", [(FakeOpenAI, "openai"), (FakeAnthropic, "anthropic")], ids=["openai", "anthropic"]
)
async def test_the_last_step_declares_its_tools_and_asks_for_words(
    tmp_path: Path, nursery: trio.Nursery, server_of: tuple[type[FakeModelServer], str]
) -> None:
    serve, kind = server_of
    async with serve.serve(nursery) as server:
        for _ in range(MODEL_STEPS_MAX - 1):
            server.enqueue(tool_calls=[ScriptedCall("now", {})])
        server.enqueue("Tea is ready.")
        async with open_daemon(tmp_path, config=_config(server, kind)) as house:
            with trio.fail_after(30):
                assert await house.talk("Is there tea?") == "Tea is ready."
            bodies = [request.body for request in server.history if "messages" in request.body]
            assert [body.get("tool_choice") for body in bodies[:-1]] == [None] * (MODEL_STEPS_MAX - 1)
            assert bodies[-1]["tools"] and bodies[-1]["tool_choice"] in ("none", {"type": "none"})
            await house.daemon.pool.aclose()


@given(
    st.lists(st.sampled_from(["<think>", "</think>", "a", "\n", "`", "```", "<", "th", "ink>", " "]), max_size=14),
    st.data(),
)
@settings(max_examples=200, deadline=None)
def test_however_a_text_is_cut_its_words_are_the_same(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    whole = Spoken()
    expected = whole.feed(text) + whole.end()
    cut = Spoken()
    said, at = "", 0
    while at < len(text):
        step = data.draw(st.integers(1, 5))
        said += cut.feed(text[at : at + step])
        at += step
    assert said + cut.end() == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a < b and <thing>", "a < b and <thing>"),
        ("the <think> tag", "the <think> tag"),
        ("Yes.\n<think>hm", "Yes.\n"),
        ("```\n<think>x</think>\n```", "```\n<think>x</think>\n```"),
        ("write </think> at the end", "write </think> at the end"),
    ],
)
def test_only_thoughts_are_left_out(text: str, words: str) -> None:
    assert spoken(text) == words


async def test_a_secret_that_the_pieces_of_a_stream_cut_is_in_no_preview(autojump_clock: object) -> None:
    hide("hunter22hunter22")
    pieces = ["The word is hun", "ter22hun", "ter22 and ", "<thi", "nk>hm</th", "ink>no other", " hunter"]
    provider = Scripted([*(TextDelta(piece) for piece in pieces), DONE])
    models = pool({"default": "x/small"}, x=provider)
    shown: list[str] = []
    await models.infer(await models.plan("user"), ASKED, shown.append)
    assert "".join(shown) == f"The word is {SECRET} and no other hunter"
    assert len(shown) > 3, "and it grows"


async def test_a_long_piece_is_looked_through_without_holding_others_up(autojump_clock: object) -> None:
    hide("sk-" + "hunter22" * 4)
    piece = "sk-hunter" * 10_000
    models = pool({"default": "x/small"}, x=Scripted([TextDelta(piece), DONE]))
    shown: list[str] = []
    plan = await models.plan("user")

    async def infer() -> None:
        await models.infer(plan, ASKED, shown.append)

    longest_s = (await holds(infer))[-1]
    assert len("".join(shown)) == len(piece)
    assert longest_s < cost(lambda: Veil().feed(piece)) / 3


async def test_one_models_rate_limit_leaves_the_others_of_its_provider_alone(autojump_clock: object) -> None:
    limited = UnavailableError("RATE_LIMITED", "status 429")
    provider = Scripted([limited], [limited], [limited], [DONE])
    models = pool({"default": "x/small", "user": "x/large"}, x=provider)
    error, _ = await refused(models)
    assert error.code == "PROVIDER_AWAY"
    assert list(models.away) == ["x/small"]
    answer = await models.infer(await models.plan("user"), ASKED)
    assert str(answer.choice) == "x/large"
    assert list(models.away) == ["x/small"], "and that says nothing of the other"
