# ruff: noqa: RUF001
"""Paths that somebody might try instead of a document's. None of them may lead anywhere."""

import unicodedata
from typing import Final

NAMES: Final = ("SOUL.md", "IDENTITY.md", "MEMORY.md", "AGENTS.md", "tools.json", "USER.md")

# Every spelling of a view beside its own, by which somebody could hope to write it.
VIEWS: Final = (
    "AGENTS.md", "tools.json", "agent/AGENTS.md", "shared/AGENTS.md", "global/AGENTS.md", "agent/tools.json",
    "shared/tools.json", "global/tools.json", "agents.md", "Agents.md", "AGENTS.MD", "AGENTS.md/", "./AGENTS.md",
    "tools.JSON", "Tools.json", "TOOLS.JSON", "tools.json.md", " AGENTS.md", "AGENTS.md ", "AGENTS.md.",
    "AGENTS%2Emd", "AGENTS.md\x00", "AGENTS.md\u200b", "ＡGENTS.md", "knowledge/../AGENTS.md", "agent//AGENTS.md",
    "AGENTS.md::$DATA",
)  # fmt: skip

TRAVERSAL: Final = (
    "..", ".", "...", "../SOUL.md", "../../etc/passwd", "./SOUL.md", "knowledge/..", "knowledge/../SOUL.md",
    "knowledge/../../SOUL.md", "knowledge/./a.md", "knowledge/a/../b.md", "agent/../shared/SOUL.md",
    "shared/../agent/SOUL.md", "global/../IDENTITY.md", "daily/../SOUL.md", "workspace/../SOUL.md",
    "project/../SOUL.md", "project/a/../b.md", "project/../../x.md", "skills/.../x.md", "knowledge/....//a.md",
    "knowledge/..;/SOUL.md", "knowledge/a.md/..", "../memory/SOUL.md", "..\\SOUL.md", "knowledge\\..\\SOUL.md",
)  # fmt: skip

ABSOLUTE: Final = (
    "/", "/SOUL.md", "/etc/passwd", "//SOUL.md", "/knowledge/a.md", "~", "~/SOUL.md", "~root/.ssh/id_rsa",
    "C:\\SOUL.md", "C:SOUL.md", "c:/SOUL.md", "\\\\server\\share\\a.md", "//server/share/a.md", "file:///etc/passwd",
    "file:SOUL.md", "http://example.org/a.md", "/proc/self/environ", "/dev/stdin", "$HOME/SOUL.md", "${HOME}/SOUL.md",
)  # fmt: skip

SHAPES: Final = (
    "", " ", "\t", "\n", "SOUL.md\n", "\nSOUL.md", "SOUL.md\r", "SOUL .md", " SOUL.md", "SOUL.md ", "SOUL.md/",
    "SOUL.md.", "SOUL.md..", "SOUL.md...", "SOUL", "SOUL.txt", "SOUL.md.md", "SOUL.md~", "#SOUL.md#", ".SOUL.md",
    ".md", "knowledge", "knowledge/", "knowledge//a.md", "knowledge/a", "knowledge/.md", "knowledge/.a.md",
    "knowledge/a.md/", "knowledge/a.md/b.md", "knowledge/a/b/c.md", "knowledge/a/b/c/d.md", "knowledge/a.b.md",
    "knowledge/-a.md", "knowledge/_a.md", "knowledge/a.txt", "knowledge/a.json", "knowledge/a .md", "knowledge/a.md ",
    "knowledge/a*.md", "knowledge/?.md", "knowledge/[a].md", "knowledge/a;b.md", "knowledge/a|b.md",
    "knowledge/a&b.md", "knowledge/a'b.md", 'knowledge/a"b.md', "knowledge/a`b`.md", "knowledge/$(a).md",
    "knowledge/<a>.md", "knowledge/a:b.md", "knowledge/a.md:stream", "knowledge/a.md::$DATA",
    "knowledge/" + "a" * 65 + ".md", "knowledge/" + "a" * 10_000 + ".md", "a/" * 5_000 + "a.md", "unknown/a.md",
    "a.md", "skills", "daily", "daily/", "workspace", "workspace/", "workspace/a/b.md", "project", "project/a",
    "project/a.md", "project/a/b", "project/a/b/c.md", "project//a.md", "agent", "agent/", "shared", "shared/",
    "global", "global/", "agent/agent/SOUL.md", "shared/shared/SOUL.md", "agent/workspace/a.md",
    "shared/project/a/b.md", "workspace/agent/SOUL.md",
)  # fmt: skip

DAYS: Final = (
    "daily/2027-1-1.md", "daily/2027-13-01.md", "daily/2027-02-30.md", "daily/2026-02-29.md", "daily/20270101.md",
    "daily/2027-W01-1.md", "daily/2027-01-01", "daily/2027-01-01.txt", "daily/today.md", "daily/0000-00-00.md",
    "daily/2027-01-01/a.md", "daily/٢٠٢٧-٠١-٠١.md", "daily/２０２７-01-01.md", "daily/+2027-01-01.md",
    "shared/daily/2027-01-01.md", "global/daily/2027-01-01.md",
)  # fmt: skip

LAYERS: Final = (
    "agent/IDENTITY.md", "shared/IDENTITY.md", "agent/USER.md", "global/USER.md", "shared/MEMORY.md",
    "global/MEMORY.md",
)  # fmt: skip

CASES: Final = (
    "soul.md", "Soul.md", "SOUL.MD", "SOUL.Md", "sOUL.md", "identity.md", "Identity.MD", "user.md", "memory.md",
    "Memory.md", "style.md", "Knowledge/a.md", "KNOWLEDGE/a.md", "knowledge/A.md", "knowledge/a.MD", "Skills/a.md",
    "skills/Folder/a.md", "Daily/2027-01-01.md", "AGENT/SOUL.md", "Shared/SOUL.md", "Global/SOUL.md",
    "WORKSPACE/a.md", "Project/a/b.md", "project/A/b.md", "workspace/Notes.md",
)  # fmt: skip

ENCODINGS: Final = (
    "%2e%2e/SOUL.md", "%2e%2e%2fSOUL.md", "..%2fSOUL.md", "%252e%252e%252fSOUL.md", "%c0%ae%c0%ae/SOUL.md",
    "%u002e%u002e/SOUL.md", "SOUL%2emd", "SOUL.md%00", "SOUL.md%00.md", "%53OUL.md", "knowledge%2fa.md",
    "knowledge%5ca.md", "knowledge/%2e%2e/SOUL.md", "knowledge/a%20b.md", "&#46;&#46;/SOUL.md", "knowledge/&lt;a.md",
    "\\u002e\\u002e/SOUL.md", "\\x2e\\x2e/SOUL.md", "=2E=2E/SOUL.md", "+AC4-/SOUL.md", "U09VTC5tZA==",
)  # fmt: skip

CHARACTERS: Final = (
    "SOUL.md\x00", "\x00SOUL.md", "SO\x00UL.md", "SOUL.md\x00.md", "knowledge/a\x00.md", "SOUL.md\x07",
    "SOUL\x1b[2J.md", "SOUL.md\x7f", "SOUL.md\x85", "\u202eSOUL.md", "SOUL\u202e.md", "dm.\u202eLUOS",
    "\u2066SOUL.md\u2069", "\u200eSOUL.md", "SO\u200bUL.md", "SO\u200dUL.md", "SO\u2060UL.md", "\ufeffSOUL.md",
    "SO\u00adUL.md", "SOUL.md\ufe0f", "SOUL\U000e0061.md", "SOUL\u3164.md", "knowledge/cafe\u0301.md",
    unicodedata.normalize("NFC", "knowledge/cafe\u0301.md"), unicodedata.normalize("NFD", "knowledge/Å.md"),
    "knowledge/ﬁle.md", "knowledge/ａ.md", "knowledge/①.md", "knowledge/ß.md", "knowledge/ı.md", "knowledge/İ.md",
    "ЅOUL.md", "SΟUL.md", "SOUⅬ.md", "ＳＯＵＬ.md", "𝐒𝐎𝐔𝐋.md", "SOUL․md", "SOUL。md", "SOUL．md", "knowledge∕a.md",
    "knowledge⁄a.md", "knowledge／a.md", "knowledge＼a.md", "‥/SOUL.md", "․․/SOUL.md", "knowledge/а.md",
    "knowledge/日記.md", "knowledge/🦆.md", "SOUL.md\ud800", "\udc80/SOUL.md",
)  # fmt: skip

DEVICES: Final = (
    "CON", "NUL", "AUX", "PRN", "CON.md", "nul.md", "COM1", "LPT1.md", "knowledge/con.md", "knowledge/nul.md",
    "knowledge/aux.md", "knowledge/prn.md", "knowledge/com1.md", "knowledge/lpt9.md", "knowledge/nul/a.md",
    "skills/con.md", "workspace/aux.md", "project/nul/a.md", "project/a/con.md", "knowledge/CON.md",
    "knowledge/con.md.", "CONIN$", "CLOCK$",
)  # fmt: skip

OWNERS: Final = (
    "a1/SOUL.md", "a1-evil/SOUL.md", "agent/a1/SOUL.md", "agent/a1-evil/SOUL.md", "agent/a2/MEMORY.md", "ann/SOUL.md",
    "shared/ann/SOUL.md", "shared/ben/USER.md", "users/ben/USER.md", "agents/ben.telegram/MEMORY.md",
    "global/ann/SOUL.md", "agent:a2/MEMORY.md", "a2:MEMORY.md", "@ben/SOUL.md", "agent-evil/SOUL.md",
    "shared-evil/SOUL.md", "globalSOUL.md", "agentSOUL.md", "knowledge-evil/a.md", "knowledgea.md",
    "project-evil/a/b.md", "SOUL.md-evil", "user/SOUL.md", "/ben/telegram/MEMORY.md", "ben/telegram",
    "id-a2/MEMORY.md",
)  # fmt: skip

PATHS: Final = tuple(
    dict.fromkeys(
        (
            *TRAVERSAL,
            *ABSOLUTE,
            *SHAPES,
            *DAYS,
            *LAYERS,
            *CASES,
            *ENCODINGS,
            *CHARACTERS,
            *DEVICES,
            *OWNERS,
            *(path for path in VIEWS if path not in ("AGENTS.md", "tools.json")),
        )
    )
)
assert len(PATHS) >= 100, len(PATHS)

# Folders that exist; everything else in PATHS is not a folder either.
FOLDERS: Final = (
    "", "knowledge", "knowledge/", "knowledge/a", "skills", "daily", "daily/", "workspace", "workspace/", "project",
    "project/a", "agent", "agent/", "shared", "shared/", "global", "global/",
)  # fmt: skip
