"""Folders as the three other assistants leave them on a disk, and a home of ours to take them into."""

import hashlib
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import trio

from daycare.features import open_store
from daycare.store.home import Home
from daycare.store.records import User
from tests.store.samples import HandClock

NOW_MS = 1_792_400_000_000  # 2026-10-19T08:53:20Z: six days before the clocks of Berlin change
BOT_TOKEN = "7123456789:AAF9x-abcdefghijklmnopqrstuvwxyz123"
OPENAI_KEY = "sk-proj-aaaabbbbccccddddeeeeffff0000"
ANTHROPIC_KEY = "sk-ant-api03-zzzzyyyyxxxxwwwwvvvv1111"
SECRETS = (BOT_TOKEN, OPENAI_KEY, ANTHROPIC_KEY)
TELEGRAM = "telegram:424242"


def clock() -> HandClock:
    """Return a clock that stands still at `NOW_MS`."""
    it = HandClock()
    it.ms = NOW_MS
    return it


def ours(folder: Path, *, zone: str = "Europe/Berlin") -> Home:
    """Return a home of ours with its operator, who has talked to nobody yet."""
    home = Home(folder)
    folder.mkdir(mode=0o700, parents=True)

    async def fill() -> None:
        async with open_store(home.database("daycare.db"), clock()) as store:
            await store.people.add(User(id="ann", name="Ann", zone=zone, operator=True, keys=("direct:ann",)))

    trio.run(fill)
    return home


def put(root: Path, files: dict[str, Any]) -> Path:
    """Write files: texts as they are, anything else as JSON."""
    for name, content in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))
    return root


def fingerprint(folder: Path) -> dict[str, tuple[str, int, int]]:
    """Return the hash, the mode and the time of change of every file below a folder."""
    found = {}
    for file in sorted(folder.rglob("*")):
        stat = file.lstat()
        data = file.read_bytes() if file.is_file() and not file.is_symlink() else b""
        found[str(file.relative_to(folder))] = (hashlib.sha256(data).hexdigest(), stat.st_mode, stat.st_mtime_ns)
    return found


def table(database: Path, create: str, rows: Sequence[dict[str, Any]] = (), *, wal: bool = False) -> None:
    """Make a table in a SQLite file, with rows."""
    database.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(database)) as db:
        if wal:
            db.execute("PRAGMA journal_mode = WAL")
        db.execute(create)
        name = create.split("(")[0].split()[-1].strip('"')
        for row in rows:
            marks = ", ".join("?" for _ in row)
            columns = ", ".join(f'"{column}"' for column in row)
            db.execute(f'INSERT INTO "{name}" ({columns}) VALUES ({marks})', tuple(row.values()))
        db.commit()


# -- OpenClaw ----------------------------------------------------------------------------------------------------------

OPENCLAW_CONFIG = f"""
// as a person leaves it
{{
  identity: {{ name: "Clawd", emoji: "🦞", }},
  agents: {{
    defaults: {{
      workspace: "~/.openclaw/workspace",
      userTimezone: 'Europe/Berlin',
      model: {{ primary: "anthropic/claude-sonnet-4-5", fallbacks: ["openai/gpt-5.2"] }},
      heartbeat: {{ every: "30m" }},
    }},
    list: [ {{ id: "main", default: true }},
      {{ id: "Work", name: "Worker", workspace: "~/.openclaw/workspace-Work" }} ],
  }},
  channels: {{
    telegram: {{ enabled: true, botToken: "{BOT_TOKEN}", allowFrom: ["tg:424242"],
      groups: {{ "-100123": {{}}, "*": {{}} }} }},
    whatsapp: {{ dmPolicy: "allowlist", allowFrom: ["+49 151 2345678", "+15555550123"] }},
    slack: {{ dm: {{ allowFrom: ["U123ABC"] }}, botToken: "${{SLACK_BOT_TOKEN}}" }},
    discord: {{ allowFrom: ["*"] }},
  }},
  models: {{ providers: {{ "my-box": {{ baseUrl: "http://192.168.1.20:8000/v1", apiKey: "YOUR_KEY" }} }} }},
  env: {{ OPENAI_API_KEY: "{OPENAI_KEY}" }},
}}
"""


def openclaw(root: Path) -> Path:
    """Make a state folder of OpenClaw with two agents, jobs of each kind, accounts, notes and conversations."""

    def job(name: str, schedule: dict[str, Any], **more: Any) -> dict[str, Any]:
        base = {"id": f"id-{name}", "name": name, "enabled": True, "createdAtMs": NOW_MS, "updatedAtMs": NOW_MS}
        base |= {"sessionTarget": "isolated", "wakeMode": "now", "state": {}}
        base |= {"payload": {"kind": "agentTurn", "message": f"do the {name}"}, "schedule": schedule}
        return base | more

    def said(role: str, text: Any, at: str) -> dict[str, Any]:
        return {"type": "message", "id": at, "timestamp": at, "message": {"role": role, "content": text}}

    put(
        root,
        {
            "openclaw.json": OPENCLAW_CONFIG,
            "credentials/telegram-allowFrom.json": {"version": 1, "allowFrom": ["424242"]},
            "credentials/whatsapp-pairing.json": {"version": 1, "requests": []},
            "agents/main/agent/auth-profiles.json": {
                "version": 1,
                "profiles": {
                    "anthropic:default": {"type": "api_key", "provider": "anthropic", "key": ANTHROPIC_KEY},
                    "openai-codex:me": {"type": "oauth", "provider": "openai-codex", "access": "x" * 40},
                },
            },
            "workspace/SOUL.md": "# Soul\n\nYou are Clawd, a patient lobster.\n",
            "workspace/USER.md": "# User\n\nAnn lives in Berlin and plays the viola.\n",
            "workspace/IDENTITY.md": "# Identity\n\nName: Clawd\n",
            "workspace/MEMORY.md": "# Memory\n\n- The boiler is a Vaillant Zephyrine from 2019.\n",
            "workspace/AGENTS.md": "# Agents\n\nRead SOUL.md first.\n",
            "workspace/TOOLS.md": "# Tools\n\nThe camera is called porch.\n",
            "workspace/BOOTSTRAP.md": "Who am I?\n",
            "workspace/skills/weather/SKILL.md": "# Weather\n",
            "workspace/skills/weather/scripts/ask.sh": "curl https://weather.example.org\n",
            "workspace/skills/weather/.git/config": "[core]\n",
            "workspace/skills/Sorted Ones/forms/SKILL.md": "---\nname: forms\ndescription: Forms.\n---\nFill.\n",
            "workspace/memory/2026-01-31.md": "# 2026-01-31\n\n- We planted a quincetree behind the shed.\n",
            "workspace/memory/garden-plans.md": "# Garden plans\n\nThe pergola needs larchwood beams.\n",
            "workspace-Work/SOUL.md": "# Soul\n\nYou write minutes.\n",
            "workspace-Work/USER.md": "# User\n\nAnn at work.\n",
            "cron/jobs.json": {
                "version": 1,
                "jobs": [
                    job(
                        "morning news",
                        {"kind": "cron", "expr": "30 7 * * *", "tz": "Europe/Berlin"},
                        delivery={"mode": "announce", "channel": "telegram", "to": "424242"},
                    ),
                    job("standup", {"kind": "every", "everyMs": 3_600_000}, agentId="Work"),
                    job(
                        "call mum",
                        {"kind": "at", "at": "2026-12-24T15:00:00"},
                        sessionTarget="main",
                        payload={"kind": "systemEvent", "text": "Remind me to call mum"},
                        deleteAfterRun=True,
                    ),
                    job("over", {"kind": "at", "at": "2020-01-01T00:00:00Z"}),
                    job("sleeping", {"kind": "cron", "expr": "0 0 9 * * 1"}, enabled=False),
                    job("script", {"kind": "cron", "expr": "0 9 * * *"}, payload={"kind": "command", "argv": ["x"]}),
                    job("broken", {"kind": "cron", "expr": "every tuesday"}),
                ],
            },
            "agents/main/sessions/sessions.json": {
                "agent:main:main": {"sessionId": "s1"},
                "agent:main:telegram:group:-100123": {"sessionId": "s2"},
            },
        },
    )
    lines = [
        {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-02-03T09:00:00.000Z"},
        said("user", "[Telegram Ann id:424242 2026-02-03 10:00 GMT+1] Where is the xylophone?", "2026-02-03T09:00:01Z"),
        said("assistant", [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "In the attic."}],
             "2026-02-03T09:00:05Z"),
        said("toolResult", "secret plumbing", "2026-02-03T09:00:06Z"),
        said("assistant", "HEARTBEAT_OK", "2026-02-03T09:30:00Z"),
    ]  # fmt: skip
    put(
        root,
        {
            "agents/main/sessions/s1.jsonl": "".join(f"{json.dumps(line)}\n" for line in lines) + "{half a li",
            "agents/main/sessions/s2.jsonl": json.dumps(said("user", "in the group", "2026-02-03T09:00:01Z")),
        },
    )
    return root


def openclaw_tables(root: Path) -> Path:
    """Add the databases that newer versions keep jobs, accounts and conversations in."""
    state, agent = root / "state/openclaw.sqlite", root / "agents/main/agent/openclaw-agent.sqlite"
    job = {"id": "t1", "name": "from the table", "schedule": {"kind": "cron", "expr": "0 8 * * *"}}
    job |= {"sessionTarget": "isolated", "payload": {"kind": "agentTurn", "message": "look"}}
    table(
        state,
        "CREATE TABLE cron_jobs (store_key TEXT, job_id TEXT, enabled INTEGER, job_json TEXT, sort_order INTEGER)",
        [{"store_key": "x", "job_id": "t1", "enabled": 0, "job_json": json.dumps(job), "sort_order": 0}],
    )
    table(
        state,
        "CREATE TABLE channel_pairing_allow_entries (channel_key TEXT, account_id TEXT, entry TEXT, sort_order INT)",
        [{"channel_key": "telegram", "account_id": "default", "entry": "515151", "sort_order": 0}],
    )
    event = {
        "type": "message",
        "timestamp": "2026-03-01T12:00:00Z",
        "message": {"role": "user", "content": "hello zinnia"},
    }
    table(agent, "CREATE TABLE session_windows (session_id TEXT, session_key TEXT)",
          [{"session_id": "w1", "session_key": "agent:main:main"}])  # fmt: skip
    table(
        agent,
        "CREATE TABLE transcript_events (session_id TEXT, seq INTEGER, event_json TEXT, created_at INTEGER)",
        [{"session_id": "w1", "seq": 1, "event_json": json.dumps(event), "created_at": NOW_MS}],
    )
    return root


# -- Hermes ------------------------------------------------------------------------------------------------------------


def hermes(root: Path) -> Path:
    """Make a home of Hermes with a profile, two memories, jobs, paired people and conversations."""

    def job(name: str, schedule: dict[str, Any], **more: Any) -> dict[str, Any]:
        base = {"id": f"h-{name}", "name": name, "prompt": f"do {name}", "schedule": schedule, "enabled": True}
        return base | {"repeat": {"times": None, "completed": 0}, "deliver": "local", "state": "scheduled"} | more

    put(
        root,
        {
            "config.yaml": "model:\n  default: claude-opus-4.6\n  provider: anthropic\ntimezone: America/New_York\n",
            ".env": f"# keys\nANTHROPIC_API_KEY={ANTHROPIC_KEY}\nTELEGRAM_BOT_TOKEN='{BOT_TOKEN}'\n"
            "TELEGRAM_ALLOWED_USERS=424242,777\nGATEWAY_ALLOWED_USERS=1\nexport OPENAI_API_KEY=${NOT_HERE}\n",
            "SOUL.md": "You are Hermes, quick and exact.\n",
            "memories/MEMORY.md": "The server runs Debian 12\n§\nProject heron uses Rust\nand sqlx\n",
            "memories/USER.md": "Ann prefers short answers\n§\nShe is vegetarian\n",
            "platforms/pairing/telegram-approved.json": {"777": {"user_name": "Ben Ötker", "approved_at": 1.0}},
            "cron/jobs.json": {
                "jobs": [
                    job("digest", {"kind": "cron", "expr": "0 9 * * 1-5"}, deliver="telegram:424242"),
                    job("pulse", {"kind": "interval", "minutes": 45}),
                    job("party", {"kind": "once", "run_at": "2026-11-05T18:00:00-05:00"}, repeat={"times": 1}),
                    job("paused", {"kind": "cron", "expr": "0 1 * * *"}, enabled=False, state="paused"),
                    job("script", {"kind": "cron", "expr": "0 1 * * *"}, no_agent=True, script="x.py"),
                ]
            },
            "profiles/coder/SOUL.md": "You write Rust.\n",
            "profiles/coder/memories/MEMORY.md": "Uses nextest\n",
            "profiles/coder/cron/jobs.json": {"jobs": [job("audit", {"kind": "cron", "expr": "0 3 * * 0"})]},
            "skills/search/SKILL.md": "x",
        },
    )
    database = root / "state.db"
    sessions: list[dict[str, Any]] = [
        {"id": "a", "source": "telegram", "user_id": "424242", "chat_type": "private"},
        {"id": "b", "source": "telegram", "user_id": "777", "chat_type": "private"},
        {"id": "c", "source": "cron", "user_id": None, "chat_type": None},
        {"id": "d", "source": "telegram", "user_id": "424242", "chat_type": "group"},
    ]
    table(database, "CREATE TABLE sessions (id TEXT, source TEXT, user_id TEXT, chat_type TEXT)", sessions)

    def message(session: str, role: str, content: str, **more: Any) -> dict[str, Any]:
        row = {"session_id": session, "role": role, "content": content, "timestamp": 1_770_000_000.5, "active": 1}
        return row | {"compacted": 0, "_compressed_summary": 0, "display_kind": None} | more

    table(
        database,
        "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, timestamp REAL,"
        " active INTEGER, compacted INTEGER, _compressed_summary INTEGER, display_kind TEXT)",
        [
            message("a", "user", "the ocarina is in the piano stool"),
            message("a", "assistant", "Noted."),
            message("a", "tool", "plumbing"),
            message("a", "user", "rewound", active=0),
            message("a", "user", "a summary", _compressed_summary=1),
            message("b", "user", "Ben asks about the marzipan"),
            message("c", "user", "a job's words"),
            message("d", "user", "in a group"),
        ],
        wal=True,
    )
    return root


# -- the TypeScript daycare --------------------------------------------------------------------------------------------

DESCRIPTORS: dict[str, dict[str, Any]] = {
    "a-user": {"type": "user", "connector": "telegram", "userId": "424242", "channelId": "424242"},
    "a-cron": {"type": "cron", "id": "c1", "name": "Morning"},
    "a-task": {"type": "task", "id": "t9"},
    "a-system": {"type": "system", "tag": "heartbeat"},
    "a-sub": {"type": "subagent", "id": "a-sub", "parentAgentId": "a-user", "name": "researcher"},
    "a-sub2": {"type": "subagent", "id": "a-sub2", "parentAgentId": "a-sub", "name": "reader"},
    "a-app": {
        "type": "app",
        "id": "a-app",
        "parentAgentId": "a-user",
        "name": "Shopping",
        "systemPrompt": "You keep lists.",
        "appId": "shopping-list",
    },
    "a-permanent": {
        "type": "permanent",
        "id": "a-permanent",
        "name": "Claude Scribe",
        "username": "scribe",
        "description": "Writes minutes",
        "systemPrompt": "You are a careful scribe.",
    },
    "a-memory": {"type": "memory-agent", "id": "a-user"},
    "a-search": {"type": "memory-search", "id": "a-search", "parentAgentId": "a-user", "name": "who is Miso"},
    "a-subuser": {"type": "subuser", "id": "u-mia", "name": "Mia", "systemPrompt": "You help Mia."},
}
PATHS = {  # where each is here
    "a-user": "/ann/telegram",
    "a-cron": "/ann/cron/morning",
    "a-task": "/ann/task/t9",
    "a-system": "/system/heartbeat",
    "a-sub": "/ann/telegram/sub/0",
    "a-sub2": "/ann/telegram/sub/0/sub/0",
    "a-app": "/ann/app/shopping-list",
    "a-permanent": "/ann/agent/scribe",
    "a-memory": "/ann/telegram/memory",
    "a-search": "/ann/telegram/search/0",
    "a-subuser": "/ann/subuser/mia",
}


def _said(number: int, session: str, kind: str, text: str) -> dict[str, Any]:
    at = 1_771_000_000_000 + number * 60_000
    return {
        "id": number,
        "session_id": session,
        "type": kind,
        "at": at,
        "data": json.dumps({"text": text, "files": []}),
    }


def daycare_ts_rows() -> dict[str, list[dict[str, Any]]]:
    """Return the rows of its tables, by table."""
    made = {"created_at": 1_770_000_000_000, "updated_at": 1_770_000_000_000}
    users: list[dict[str, Any]] = [
        {"id": "u-ann", "is_owner": 1, "name": "Ann", "nametag": "ann-1", "parent_user_id": None, **made},
        {"id": "u-ben", "is_owner": 0, "name": "Ben", "nametag": "ben-2", "parent_user_id": None, **made},
        {"id": "u-mia", "is_owner": 0, "name": "Mia", "nametag": "mia-3", "parent_user_id": "u-ann", **made},
    ]
    agents = [
        {
            "id": ref,
            "type": it["type"],
            "descriptor": json.dumps(it),
            "user_id": "u-ann",
            "lifecycle": "active",
            "created_at": 1_770_000_000_000 + number,
        }
        for number, (ref, it) in enumerate(DESCRIPTORS.items())
    ]
    return {
        "users": users,
        "user_connector_keys": [
            {"id": 1, "user_id": "u-ann", "connector_key": "telegram:424242"},
            {"id": 2, "user_id": "u-ben", "connector_key": "whatsapp:4915112345678"},
        ],
        "agents": agents,
        "tasks": [
            {"id": "k1", "user_id": "u-ann", "title": "Morning", "description": "Tell the news", "code": "say('news')"},
            {"id": "k2", "user_id": "u-ann", "title": "Someday", "description": None, "code": "print(1)"},
        ],
        "tasks_cron": [
            {"id": "c1", "task_id": "k1", "user_id": "u-ann", "name": "Morning", "schedule": "0 7 * * *",
             "timezone": "Europe/Berlin", "agent_id": None, "enabled": 1, "delete_after_run": 0, "prompt": None},
            {"id": "c2", "task_id": None, "user_id": "u-ben", "name": "Water", "schedule": "0 18 * * *",
             "timezone": "UTC", "agent_id": None, "enabled": 1, "delete_after_run": 0, "prompt": "water the plants"},
        ],
        "tasks_heartbeat": [{"id": "h1", "user_id": "u-ann", "title": "look around", "prompt": "look"}],
        "signals_subscriptions": [
            {"id": "s1", "user_id": "u-ann", "agent_id": "a-permanent", "pattern": "agent:a-user:idle", "silent": 1},
            {"id": "s2", "user_id": "u-ann", "agent_id": "a-permanent", "pattern": "Not A Pattern!", "silent": 0},
        ],
        "sessions": [{"id": f"x-{ref}", "agent_id": ref, "created_at": 1} for ref in DESCRIPTORS],
        "session_history": [
            _said(1, "x-a-user", "user_message", "my ferret is called Quillon"),
            _said(2, "x-a-user", "assistant_message", "A lovely name."),
            _said(3, "x-a-user", "tool_result", "plumbing"),
            _said(4, "x-a-sub", "assistant_message", "the researcher found saffron"),
            _said(5, "x-a-permanent", "user_message", "minutes of the council"),
            _said(6, "x-a-system", "assistant_message", "gears"),
        ],
        "documents": [
            {"id": "d0", "user_id": "u-ann", "version": 1, "valid_to": None, "slug": "system", "title": "System",
             "description": "", "body": "", **made},
            {"id": "d1", "user_id": "u-ann", "version": 2, "valid_to": None, "slug": "soul", "title": "Soul",
             "description": "", "body": "You are kind.", **made},
            {"id": "d1", "user_id": "u-ann", "version": 1, "valid_to": 5, "slug": "soul", "title": "Soul",
             "description": "", "body": "older", **made},
            {"id": "d2", "user_id": "u-ann", "version": 1, "valid_to": None, "slug": "people", "title": "People",
             "description": "", "body": "Clara is a luthier in Cremona.", **made},
        ],
        "document_references": [
            {"id": 1, "user_id": "u-ann", "source_id": "d1", "source_version": 2, "target_id": "d0", "kind": "parent"},
        ],
    }  # fmt: skip


def daycare_ts(root: Path, *, as_rows: bool = False) -> Path:
    """Make a data folder of the TypeScript daycare with agents of all ten kinds: a database, or exported tables."""
    put(
        root,
        {
            "settings.json": {"models": {"user": "anthropic/claude-sonnet-4-5"}, "engine": {}},
            "auth.json": {
                "anthropic": {"type": "apiKey", "apiKey": ANTHROPIC_KEY},
                "telegram": {"type": "token", "token": BOT_TOKEN},
            },
            "users/u-ann/home/knowledge/USER.md": "Ann keeps bees.\n",
            "users/u-ann/memory/graph/__root__.md": "---\ntitle: root\n---\n",
            "users/u-ann/memory/graph/node1.md": "---\ntitle: Bees\ndescription: what is known\npath: [bees]\n---\n"
            "The hives stand by the rowanberry hedge.\n",
        },
    )
    for name, rows in daycare_ts_rows().items():
        if as_rows:
            text = "".join(f"{json.dumps(row)}\n" for row in rows)
            put(root / "export", {f"{name}.jsonl": text})
        else:
            columns = ", ".join(f'"{column}"' for column in rows[0])
            table(root / "daycare.db", f'CREATE TABLE "{name}" ({columns})', rows)
    return root


def daycare_ts_files(root: Path) -> Path:
    """Make a data folder as it was before there was a database."""
    for ref, it in DESCRIPTORS.items():
        put(
            root, {f"agents/{ref}/descriptor.json": it, f"agents/{ref}/state.json": {"createdAt": 1, "state": "active"}}
        )
    front = "---\ntaskId: abc\nname: Morning\nschedule: 0 7 * * *\n---\nTell the news.\n"
    lines = [{"type": "start", "at": 1_771_000_000_000},
             {"type": "user_message", "at": 1_771_000_000_000, "text": "the lute is tuned", "files": []}]  # fmt: skip
    return put(
        root,
        {
            "cron/c1/TASK.md": front,
            "SOUL.md": "You are calm.\n",
            "agents/a-user/history.jsonl": "".join(f"{json.dumps(line)}\n" for line in lines),
        },
    )
