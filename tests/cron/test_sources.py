"""Jobs come from config.toml, from files, from people and from agents; who wrote one down disposes of it."""

import os
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace

from daycare.base.cron import CronSection, CronSpec, is_silence
from daycare.base.errors import ConflictError, DaycareError, ForbiddenError, InvalidError, NotFoundError
from daycare.base.messages import ToolResult
from daycare.base.permission import OwnRule, Permissions
from daycare.config import Config, ModelsSection, ProviderSection, check
from daycare.features.cron.rows import CronRows
from daycare.features.cron.service import CRON_FILES_LOOK_S
from daycare.plugin import InferRequest
from daycare.store.records import AgentConfig
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import Scripted, call, say
from tests.cron.helpers import TEN_S, delivered, ledger, schedule

LOOK_S = CRON_FILES_LOOK_S + 1  # until the folder was looked at again

MORNING = """---
cron: "*/10 * * * *"
zone: Europe/Berlin
parameters:
  city: Bonn
retry: 2
---
The weather in {{city}}, in two lines.
"""


def write(folder: Path, name: str, text: str) -> Path:
    (folder / "cron").mkdir(exist_ok=True)
    file = folder / "cron" / name
    file.write_text(text)
    return file


async def jobs(house: TestDaemon) -> list[str]:
    return [job.id for job in await house.store.of(CronRows).find()]


def results_of(request: InferRequest) -> list[ToolResult]:
    return [part for message in request.messages for part in message.parts if isinstance(part, ToolResult)]


def problems(house: TestDaemon) -> list[str]:
    return [str(problem) for problem in house.daemon.cron.controls.problems]


async def test_a_file_is_a_job(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    write(tmp_path, "morning.md", MORNING)
    async with open_daemon(tmp_path, model) as house:
        await trio.sleep(TEN_S)
        job = await house.daemon.cron.controls.at("/ann/cron/morning")
        assert (job.source, job.source_ref) == ("file", "cron/morning.md")
        assert job.spec == CronSpec(
            cron="*/10 * * * *",
            zone="Europe/Berlin",
            parameters={"city": "Bonn"},
            retry=2,
            prompt="The weather in {{city}}, in two lines.",
        )
        assert model.history[0].messages[0].text.endswith("The weather in Bonn, in two lines.")


async def test_a_file_that_changes_is_read_again_and_one_that_goes_takes_its_job_along(
    tmp_path: Path, autojump_clock: object
) -> None:
    file = write(tmp_path, "morning.md", MORNING)
    async with open_daemon(tmp_path) as house:
        await trio.sleep(LOOK_S)
        file.write_text(MORNING.replace("two lines", "ten lines"))
        write(tmp_path, "evening.md", MORNING)
        await trio.sleep(LOOK_S)
        assert await jobs(house) == ["evening", "morning"]
        assert "ten lines" in (await house.daemon.cron.controls.at("/ann/cron/morning")).spec.prompt
        file.unlink()
        await trio.sleep(LOOK_S)
        assert await jobs(house) == ["evening"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("no fields", "cron/broken.md:1: begins with a line ---"),
        ("---\ncron: x\n", "cron/broken.md:1: has no second line ---"),
        ("---\ncron: */15 * * * *\n---\nhello", "cron/broken.md:2: a value that begins with * stands in quotes"),
        ("---\ncron: 0 7 * * *\n  bad: [\n---\nhello", "cron/broken.md:3: "),
        ("---\njust words\n---\nhello", "cron/broken.md:2: has no fields"),
        ("---\ncron: 0 7 * * *\ncolour: red\n---\nhello", "cron/broken.md:3: object contains unknown field `colour`"),
        ("---\ncron: 0 7 * * *\nretry: many\n---\nhello", "cron/broken.md:3: expected `int`"),
        ("---\ncron: 0 7 * * *\nprompt: x\n---\nhello", "cron/broken.md:3: prompt is what stands below"),
        ("---\ncron: 0 7 * * *\n---\n", "cron/broken.md:1: prompt is needed"),
        ("---\ncron: 0 7 * *\n---\nhello", "cron/broken.md:1: read '0 7 * *': it has 4 fields"),
        ("---\nat: never\n---\nhello", "cron/broken.md:1: read the time 'never'"),
        ("---\ncron: 0 7 * * *\nzone: Mars\n---\nhello", "cron/broken.md:1: unknown time zone 'Mars'"),
        ("---\ncron: 0 7 * * *\nuser: ben\n---\nhello", "cron/broken.md:1: scheduling for ben: no such user"),
        (
            "---\ncron: 0 7 * * *\ntarget: /ben/direct\n---\nhello",
            "cron/broken.md:1: target /ben/direct: it belongs to",
        ),
        ("---\ncron: 0 7 * * *\n---\nhello {{name}}", "cron/broken.md:1: prompt names {{name}}"),
        ("---\n" + "a: &a [*a, *a]\n" * 3 + "---\nhello", "cron/broken.md:"),
    ],
)
async def test_a_broken_file_is_told_and_wipes_nothing(
    tmp_path: Path, autojump_clock: object, text: str, what: str
) -> None:
    write(tmp_path, "good.md", MORNING)
    broken = write(tmp_path, "broken.md", MORNING)
    async with open_daemon(tmp_path) as house:
        await trio.sleep(LOOK_S)
        assert await jobs(house) == ["broken", "good"] and problems(house) == []
        broken.write_text(text)
        await trio.sleep(LOOK_S)
        [problem] = problems(house)
        assert problem.startswith(what)
        assert await jobs(house) == ["broken", "good"]
        assert (await house.daemon.cron.controls.at("/ann/cron/broken")).spec.retry == 2  # as it was before
        assert [event["source"] for event in house.events("cron.broken")] == ["cron/broken.md"]
        assert (await house.daemon.status())["cron"]["problems"] == [problem]
        broken.write_text(MORNING)
        await trio.sleep(LOOK_S)
        assert problems(house) == []


async def test_a_folder_that_cannot_be_read_wipes_nothing(tmp_path: Path, autojump_clock: object) -> None:
    write(tmp_path, "good.md", MORNING)
    async with open_daemon(tmp_path) as house:
        await trio.sleep(LOOK_S)
        (tmp_path / "cron").rename(tmp_path / "elsewhere")
        (tmp_path / "cron").write_text("no folder")
        await trio.sleep(LOOK_S)
        assert await jobs(house) == ["good"] and "cannot be read" in problems(house)[0]


async def test_what_is_no_plain_file_is_no_job(tmp_path: Path, autojump_clock: object) -> None:
    write(tmp_path, "notes.txt", "hello")
    (tmp_path / "cron" / "folder.md").mkdir()
    os.mkfifo(tmp_path / "cron" / "pipe.md")
    (tmp_path / "cron" / "bad.md").write_bytes(b"---\ncron: 0 7 * * *\n---\n\xff\xfe")
    (tmp_path / "cron" / "Wrong Name.md").write_text(MORNING)
    (tmp_path / "cron" / "long.md").write_text(MORNING + "x" * 70_000)
    (tmp_path / "cron" / "many.md").write_text(f"---\ncron: {'x' * 9_000}\n---\nhello")
    (tmp_path / "cron" / "nowhere.md").symlink_to("/nowhere/at/all")
    async with open_daemon(tmp_path) as house:
        await trio.sleep(LOOK_S)
        assert await jobs(house) == []
        assert len(problems(house)) == 7
        write(tmp_path, "good.md", MORNING)
        await trio.sleep(LOOK_S)
        assert await jobs(house) == ["good"]


def configured(**sections: CronSection) -> Config:
    return Config(
        models=ModelsSection(default="scripted/model"),
        providers={"scripted": ProviderSection(kind="scripted")},
        cron=dict(sections),
    )


async def test_config_has_jobs_that_only_config_changes(tmp_path: Path, autojump_clock: object) -> None:
    config = configured(news=CronSection(cron="*/10 * * * *", prompt="the news"))
    async with open_daemon(tmp_path, location="daycare.db", config=config) as house:
        controls = house.daemon.cron.controls
        await trio.sleep(TEN_S)
        assert [run.state for run in await ledger(house, "news")] == ["ran"]
        for refused in (controls.remove("/ann/cron/news"), controls.change("/ann/cron/news", {"retry": 1})):
            with pytest.raises(ForbiddenError) as error:
                await refused
            assert error.value.code == "CRON_READ_ONLY" and "config.toml [cron.news]" in error.value.message
        assert (await controls.pause("/ann/cron/news", paused=True)).paused
    changed = replace(config, cron={"news": CronSection(cron="*/5 * * * *", prompt="the news")})
    async with open_daemon(tmp_path, location="daycare.db", config=changed) as house:
        await trio.sleep(LOOK_S)
        job = await house.daemon.cron.controls.at("/ann/cron/news")
        assert job.paused and job.spec.cron == "*/5 * * * *"
    async with open_daemon(tmp_path, location="daycare.db", config=configured()) as house:
        await trio.sleep(LOOK_S)
        assert await jobs(house) == []


def test_config_is_checked_with_the_line_of_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        '[cron.good]\ncron = "0 7 * * *"\nprompt = "x"\n\n[cron.bad]\ncron = "0 7 * *"\nprompt = "x"\n\n'
        '[cron.worse]\ncron = "0 7 * * *"\nprompt = "x"\nretry = "two"\n'
        '[cron."No Name"]\nat = "2027-01-01"\nprompt = "x"\n'
    )
    found = [(problem.line, problem.key, problem.what) for problem in check(tmp_path)]
    assert [(line, key) for line, key, _ in found] == [
        (5, "cron.bad"),
        (12, "cron.worse.retry"),
        (13, "cron.'No Name'"),
    ]
    assert "it has 4 fields" in found[0][2]


async def test_the_first_of_a_name_keeps_it(tmp_path: Path, autojump_clock: object) -> None:
    write(tmp_path, "sum.md", MORNING)
    async with open_daemon(tmp_path, work=False) as house:
        await schedule(house)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(house.daemon.work)
            await trio.sleep(LOOK_S)
            job = await house.daemon.cron.controls.at("/ann/cron/sum")
            assert job.source == "cli"
            assert problems(house) == ["cron/sum.md:1: /ann/cron/sum is not kept: there is one from cli"]
            nursery.cancel_scope.cancel()


# -- agents ----------------------------------------------------------------------------------------------------------


async def test_an_agent_schedules_for_its_own_user(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        model.enqueue(
            call(
                ("cron_add", {"name": "tea", "prompt": "Say that tea is ready", "cron": "*/20 * * * *"}),
                ("cron_add", {"name": "once", "prompt": "Say hello", "at": "2027-01-01T00:10"}),
            ),
            call(("cron_list", {})),
            say("It is set up."),
        )
        await house.talk("tell me about tea")
        told = [result.text for result in results_of(model.history[2])]
        assert "next 2027-01-01T00:20:00+00:00" in told[0]
        assert "tea [*/20 * * * * UTC] Say that tea is ready" in told[2] and "once [at 2027-01-01T00:10 UTC]" in told[2]
        job = await house.daemon.cron.controls.at("/ann/cron/tea")
        assert (job.source, job.source_ref) == ("agent", "/ann/direct")
        await trio.sleep(2 * TEN_S)
        assert await jobs(house) == ["tea"]  # a single one goes when it has run
        assert len(await delivered(house)) == 3
        await house.talk("/reset")  # what the runs said stood in the conversation
        model.enqueue(call(("cron_pause", {"name": "tea"}), ("cron_remove", {"name": "tea"})), say("Gone."))
        await house.talk("no more tea")
        assert await jobs(house) == []


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"cron": "* * * * *"}, "every 10 minutes at most"),
        ({"cron": "0,5 7 * * *"}, "every 10 minutes at most"),
        ({"cron": "0 7 * *"}, "it has 4 fields"),
        ({"at": "2020-01-01T00:00"}, "that is over"),
        ({}, "is needed"),
        ({"cron": "0 7 * * *", "target": "/ben/direct"}, "nothing goes from one user to another"),
        ({"cron": "0 7 * * *", "target": "/ann/agent/nobody"}, "no such agent"),
        ({"cron": "0 7 * * *", "name": "../x"}, "cron name"),
    ],
)
async def test_what_an_agent_may_not_schedule_it_is_told(
    tmp_path: Path, autojump_clock: object, arguments: dict[str, str], why: str
) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        model.enqueue(call(("cron_add", {"name": "x", "prompt": "p"} | arguments)), say("no"))
        await house.talk("do it")
        [result] = results_of(model.history[1])
        assert result.status == "error" and why in result.text
        assert await jobs(house) == []


async def test_what_stands_in_a_file_an_agent_can_pause_and_nothing_else(
    tmp_path: Path, autojump_clock: object
) -> None:
    write(tmp_path, "morning.md", MORNING)
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        await trio.sleep(LOOK_S)
        model.enqueue(call(("cron_remove", {"name": "morning"})), call(("cron_pause", {"name": "morning"})), say("ok"))
        await house.talk("stop that")
        results = results_of(model.history[2])
        assert "it stands in cron/morning.md" in results[0].text
        assert (await house.daemon.cron.controls.at("/ann/cron/morning")).paused


async def test_a_rule_keeps_an_agent_from_scheduling(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        asked: list[tuple[str, str, str]] = []

        async def may(subject: str, action: str, target: str) -> None:
            asked.append((subject, action, target))
            raise ForbiddenError("PERMISSION_DENIED", "scheduling: it is not permitted")

        controls = house.daemon.cron.controls
        controls.may = may
        with pytest.raises(ForbiddenError, match="not permitted"):
            await controls.add("ann", "x", CronSpec(cron="0 7 * * *", prompt="p"), source="agent", by="/ann/agent/a")
        assert [each[:2] for each in asked] == [("/ann/agent/a", "schedule")]
        await controls.add("ann", "x", CronSpec(cron="0 7 * * *", prompt="p"), source="cli")


# -- the chat command ------------------------------------------------------------------------------------------------


async def test_people_see_pause_and_run_jobs_in_a_chat(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        assert "Nothing is scheduled" in await house.talk("/cron")
        await schedule(house, "sum", prompt="sum it up", cron="0 7 * * *")
        assert "sum [0 7 * * * UTC] sum it up: next 2027-01-01T07:00:00+00:00" in await house.talk("/cron")
        assert "paused" in await house.talk("/cron pause sum")
        assert "next 2027" in await house.talk("/cron resume sum")
        assert "runs now" in await house.talk("/cron run sum")
        await trio.sleep(5)
        assert [run.state for run in await ledger(house)] == ["ran"]
        assert "last ran" in await house.talk("/cron list")
        assert "no such job" in await house.talk("/cron run nothing")
        assert "/cron pause NAME" in await house.talk("/cron dance sum")


# -- specs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"prompt": " "}, "prompt is needed"),
        ({"cron": "", "at": ""}, "cron is needed"),
        ({"at": "2027-01-01"}, "one of both"),
        ({"misfire": "sometimes"}, "misfire expected"),
        ({"misfire": "within 0"}, "misfire expected"),
        ({"misfire": "within 999999"}, "misfire expected"),
        ({"prompt": "x" * 40_000}, "prompt is longer"),
        ({"zone": "Nowhere"}, "unknown time zone"),
    ],
)
def test_a_spec_that_makes_no_sense_names_its_field(fields: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidError, match=why):
        replace(CronSpec(cron="0 7 * * *", prompt="p"), **fields).checked()


def test_silence_is_one_word_alone() -> None:
    assert all(map(is_silence, ("NO_REPLY", " NO_REPLY\n", "`NO_REPLY`", "NO_REPLY.", "**NO_REPLY**")))
    assert not any(map(is_silence, ("", "no_reply", "NO_REPLY today", "Nothing.", "NO_REPLY\nbut wait")))


async def test_errors_name_what_is_wrong(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        controls = house.daemon.cron.controls
        await schedule(house)
        cases: list[tuple[object, type[DaycareError], str]] = [
            (schedule(house), ConflictError, "there is one"),
            (controls.at("/ann/cron/none"), NotFoundError, "no such job"),
            (controls.change("/ann/cron/sum", {"retry": "9"}), InvalidError, "retry"),
            (controls.change("/ann/cron/sum", {"color": "red"}), InvalidError, "color"),
            (schedule(house, "b", target="/ann/cron/sum"), InvalidError, "takes no jobs"),
            (schedule(house, "b", deliver="/ann/agent/x"), InvalidError, "people talk at"),
            (schedule(house, "b", deliver="/ben/direct"), ForbiddenError, "another user"),
            (
                controls.add("ben", "b", CronSpec(cron="0 7 * * *", prompt="p"), source="cli"),
                NotFoundError,
                "no such user",
            ),
        ]
        for doing, kind, words in cases:
            with pytest.raises(kind, match=words):
                await doing  # type: ignore[misc]


async def test_what_an_agent_schedules_may_do_no_more_than_it_may_itself(
    tmp_path: Path, autojump_clock: object
) -> None:
    rules = Permissions(rules=(OwnRule(action="message", decision="deny", object="/ann/agent/bank"),))
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        await house.agent("/ann/agent/bank")
        await house.agent("/ann/agent/mailer", AgentConfig(permissions=rules, tools=("cron_add", "cron_remove", "ask")))
        await schedule(house, "free", at="2027-01-01T00:10")
        await trio.sleep(TEN_S)
        assert (await house.daemon.directory.at("/ann/cron/free")).config.tools is None
        for name, task in (("own", ""), ("long", "long"), ("free", "")):
            job = {"name": name, "prompt": "x", "at": "2027-01-01T02:00", "task": task}
            calls = [("cron_remove", {"name": "free"})] if name == "free" else []  # whose agent has not gone yet
            model.enqueue(call(*calls, ("cron_add", job)), say("done"))
            await house.talk("go", path="/ann/agent/mailer")
        await trio.sleep(2 * 3600)
        bound = ("cron_add", "cron_remove", "ask", "task_progress")
        found = {agent.path: agent.config for agent in await house.store.agents.find(include_dead=True)}
        made = [path for path in found if path.startswith(("/ann/cron/", "/ann/task/"))]
        assert len(made) == 3
        for path in made:
            assert (found[path].tools, found[path].permissions) == (bound, rules), path
