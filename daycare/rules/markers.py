"""Marks of structure that a note has no business to carry: roles of a conversation, calls of tools, links with data.

Besides them, phrases that are worth a second look wherever they stand.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_PIECE_CHARS: Final = 2_048
_OVERLAP_CHARS: Final = 300  # no mark is longer


class FoundMark(NamedTuple):
    """A mark and its place in the text that was read."""

    kind: str
    start: int
    end: int
    plain: bool  # it is in configurations too; what is behind it tells


_PLAIN: Final = ("system", "assistant", "developer")
# kind, what is in each of them (looking for that costs nothing), the mark in a folded text
_MARKS: Final = tuple(
    (kind, clues, re.compile(pattern))
    for kind, clues, pattern in (
        (
            "role",
            ("<", "["),
            r"<\|[a-z_]{2,30}\|?>|\[/?inst\]|<</?sys>>|<(?:start|end)_of_turn>|</s>|<\|im_",
        ),
        (
            "role",
            ("<",),
            r"</?(?:system|system[_ -](?:prompt|message|instructions?)|assistant|developer|"
            r"instructions?)(?: [^<>\n]{0,80})?>",
        ),
        (
            "role",
            ('"role', "'role"),
            r"[\"']role[\"']\s{0,3}[:=]\s{0,3}[\"'](?:system|assistant|developer)[\"']",
        ),
        (
            "role",
            ("##",),
            r"(?m:^)[ \t>*#-]{0,8}#{2,6} ?(?:(?:new |updated )?(?:system|assistant|developer)\b|"
            r"instruction\b|system prompt)[^\n]{0,20}:",
        ),
        (
            "role",
            ("[", "{{"),
            r"\[(?:system|assistant|developer|admin)(?: (?:message|prompt|note|override|notice|"
            r"instructions?|update))?\]|\{\{ ?(?:system|#system)",
        ),
        (
            "role",
            _PLAIN,
            r"(?m:^)[ \t>*_\"']{0,6}(?:system|assistant|developer|system (?:prompt|message|override|"
            r"notice|instructions?|note))[*_]{0,2} ?:(?!//)[ \t*_]{0,4}\S",
        ),
        (
            "role",
            ("begin", "---", "===", "***", "###", "~~~", "___", "["),
            r"(?:(?<![-=*_#~])[-=*_#~]{3,20}+ ?|\bbegin |\[)(?:begin |start |end )?(?:of )?(?:new |"
            r"user |hidden )?(?:system (?:prompt|message|instructions?|override)|untrusted (?:data|"
            r"content)|user input|tool (?:result|output)|conversation|context|document|"
            r"data)\b ?(?:[-=*_#~]{3,20}|\])",
        ),
        (
            "role",
            ("human:", "user:"),
            r"(?:\n\n|^)(?:human|user): [^\n]{1,200}\n{1,3}(?:assistant|ai): ",
        ),
        (
            "role",
            ("систем", "系统", "システム", "systeme", "sistema"),
            r"(?:система|систем(?:ное|ный) (?:сообщение|промпт)|系统(?:提示|消息|指令)?|"
            r"システム(?:プロンプト|メッセージ)?|systeme|sistema) ?: ?"
            r"(?:ты|вы|你|忽略|无视|あなた|以前|これ|忽|现在|tu |vous |ignor|forget|vergiss|eres"
            r"|sei |voce)",
        ),
        (
            "tool",
            ("<", "[tool"),
            r"</?(?:tool_call|tool_calls|tool_use|tool_result|function_calls?|function_results?|invoke"
            r"|tool_code|antml:[a-z_]+|parameter)\b[^<>\n]{0,120}>|<function=|\[tool_calls?\]",
        ),
        (
            "tool",
            ("tool", "function_call", "recipient"),
            r"[\"'](?:tool_calls?|function_call|tool_use|tool_name|"
            r"recipient_name)[\"']\s{0,3}:\s{0,3}[\"\[{]",
        ),
        (
            "tool",
            ("argument", "args", "param", "input"),
            r"[\"'](?:name|tool|function|"
            r"action)[\"']\s{0,3}:\s{0,3}[\"'][a-z_.]{2,40}[\"']\s{0,3},\s{0,3}[\"'](?:arguments|args|"
            r"parameters|input|action_input|params)[\"']\s{0,3}:",
        ),
        (
            "tool",
            ("```tool", "action:"),
            r"```(?:tool_code|tool_call|tool)\b|(?m:^)action: ?[a-z_]{2,40}\s{1,3}action input:",
        ),
        (
            "tool",
            ("to=", "functions."),
            r"\bto=(?:functions|tools?|python|browser)\b|\bfunctions\.[a-z_]{2,40}\(",
        ),
        (
            "tool",
            (
                "identity_propose",
                "memory_",
                "send_",
                "run_",
                "shell_exec",
                "execute_command",
                "delete_file",
                "transfer_",
                "http_",
                "make_payment",
            ),
            r"\b(?:identity_propose|memory_(?:write|append|delete)) ?\(|\b(?:identity_propose|"
            r"memory_(?:write|append|delete)|send_e?mail|send_message|run_shell|shell_exec|"
            r"execute_command|delete_files?|transfer_(?:money|funds)|http_(?:post|get)|make_payment|"
            r"run_command)\b ?(?:tool\b|on\b|with\b|mit\b|avec\b|con\b|com\b|и\b|на\b|to\b)",
        ),
        (
            "tool",
            ("rm -", "curl", "wget", "base64", "nc -", "/dev/tcp", ">>"),
            r"\brm -[rf]{1,3} (?:--no-preserve-root )?(?:[~/$]|\*(?!\.))|\b(?:curl|wget)\b[^\n|"
            r";]{1,200}+\|\s?(?:sudo )?(?:ba|z|da)?sh\b|\bbase64 (?:-d|--decode)\b[^\n|"
            r"]{0,80}\|\s?(?:ba)?sh\b|\bnc -[a-z]{0,4}e|/dev/tcp/|"
            r">> ?~?/?[a-z/.]{0,40}(?:authorized_keys|\.bashrc|crontab)|\bcurl\b[^\n]{0,60}(?:-d|"
            r"--data|-f|-t|--data-binary|--upload-file) ?['\"]?@",
        ),
        (
            "exfiltration",
            ("://",),
            r"(?:https?|hxxps?)://[^\s\"'<>]{1,200}[?&=/#](?:\$?\{{1,2}|\[|<|%7b|"
            r"\$\()[ \w-]{0,30}(?:secret|password|token|key|data|conversation|history|memory|memories|"
            r"context|prompt|content|summary|chat|message|email|contacts?|credentials?|base64|encoded|"
            r"info|session|cookie|user|insert|your|answer|env|text)[\w ,.-]{0,60}",
        ),
        (
            "exfiltration",
            ("![",),
            r"!\[[^\]\n]{0,100}\]\((?:https?:)?//[^\s)]{1,200}[?&/](?:[a-z]{1,12}=)?(?:\$?\{|\[|<|%7b|"
            r"\$\()",
        ),
        (
            "exfiltration",
            ("<img",),
            r"<img[^<>]{0,100}src ?= ?[\"']?https?://[^\s\"'>]{1,200}[?&][a-z]{1,12}=(?:\$?\{|\[|<|\"|"
            r"'|%7b)",
        ),
    )
)


# Few words that many attacks have, and many harmless notes: what they are called, and the words.
PHRASES: Final = {
    "always": re.compile(r"\balways\s{1,8}(?:do|send|forward)\b"),
    "never": re.compile(r"\bnever\s{1,8}(?:ask|check|verify)\b"),
    "ignore": re.compile(r"\bignore\s{1,8}(?:previous|user)\b"),
}


def phrases(text: str) -> Iterator[tuple[str, int, int] | None]:
    """Return what each phrase in a folded text is called, and its place; None after each piece."""
    for at in range(0, len(text), _PIECE_CHARS):
        begin, end = max(0, at - _OVERLAP_CHARS), min(len(text), at + _PIECE_CHARS)
        for kind, pattern in PHRASES.items():
            yield from ((kind, *found.span()) for found in pattern.finditer(text, begin, end))
        yield None


def marks(text: str) -> Iterator[FoundMark | None]:
    """Return the marks in a folded text; None after each piece, so that others get a turn."""
    for at in range(0, len(text), _PIECE_CHARS):
        begin, end = max(0, at - _OVERLAP_CHARS), min(len(text), at + _PIECE_CHARS)
        part = text[begin:end]
        for kind, clues, pattern in _MARKS:
            if any(clue in part for clue in clues):
                for found in pattern.finditer(text, begin, end):
                    yield FoundMark(kind, found.start(), found.end(), clues is _PLAIN)
                yield None
        yield None
