"""Marks of structure that a text has no business to carry: roles of a conversation, calls of tools, links that carry data."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_PIECE_CHARS: Final = 4_096
_OVERLAP_CHARS: Final = 400  # no mark is longer


class Mark(NamedTuple):
    """A mark and its place in the text that was read."""

    kind: str
    severity: str
    start: int
    end: int


_ROLES: Final = r"(?:system|assistant|developer|user|human|model|ai)"
_MARKS: Final = tuple(
    (kind, severity, re.compile(pattern))
    for kind, severity, pattern in (
        ("role", "danger", r"<\|[a-z_]{2,30}\|?>|\[/?inst\]|<</?sys>>|<(?:start|end)_of_turn>|</s>|<\|im_"),
        ("role", "danger", r"</?(?:system|system[_ -](?:prompt|message|instructions?)|assistant|developer|instructions?)(?: [^<>\n]{0,80})?>"),
        ("role", "danger", r"[\"']role[\"']\s{0,3}[:=]\s{0,3}[\"'](?:system|assistant|developer)[\"']"),
        ("role", "danger", r"(?m:^)[ \t>*#-]{0,8}#{2,6} ?(?:(?:new |updated )?(?:system|assistant|developer)\b|instruction\b|system prompt)[^\n]{0,20}:"),
        ("role", "danger", r"\[(?:system|assistant|developer|admin)(?: (?:message|prompt|note|override|notice|instructions?|update))?\]|\{\{ ?(?:system|#system)"),
        ("role", "danger", r"(?m:^)[ \t>*_\"']{0,6}(?:system|assistant|developer|system (?:prompt|message|override|notice|instructions?|note))[*_]{0,2} ?:(?!//)[ \t*_]{0,4}\S"),
        ("role", "danger", r"(?:[-=*_#~]{3,20} ?|\bbegin |\[)(?:begin |start |end )?(?:of )?(?:new |user |hidden )?(?:system (?:prompt|message|instructions?|override)|untrusted (?:data|content)|user input|tool (?:result|output)|conversation|context|document|data)\b ?(?:[-=*_#~]{3,20}|\])"),
        ("role", "danger", r"(?:\n\n|^)(?:human|user): [^\n]{1,200}\n{1,3}(?:assistant|ai): "),
        ("role", "danger", r"(?:система|систем(?:ное|ный) (?:сообщение|промпт)|系统(?:提示|消息|指令)?|システム(?:プロンプト|メッセージ)?|systeme|sistema) ?[::] ?(?=\S)(?:ты|вы|你|忽略|无视|あなた|以前|これ|忽|现在|tu |vous |ignor|forget|vergiss|eres|sei |voce)"),
        ("tool", "danger", r"</?(?:tool_call|tool_calls|tool_use|tool_result|function_calls?|function_results?|invoke|tool_code|antml:[a-z_]+|parameter)\b[^<>\n]{0,120}>|<function=|\[tool_calls?\]"),
        ("tool", "danger", r"[\"'](?:tool_calls?|function_call|tool_use|tool_name|recipient_name)[\"']\s{0,3}:\s{0,3}[\"\[{]"),
        ("tool", "danger", r"[\"'](?:name|tool|function|action)[\"']\s{0,3}:\s{0,3}[\"'][a-z_.]{2,40}[\"']\s{0,3},\s{0,3}[\"'](?:arguments|args|parameters|input|action_input|params)[\"']\s{0,3}:"),
        ("tool", "danger", r"```(?:tool_code|tool_call|tool)\b|(?m:^)action: ?[a-z_]{2,40}\s{1,3}action input:"),
        ("tool", "danger", r"\bto=(?:functions|tools?|python|browser)\b|\bfunctions\.[a-z_]{2,40}\("),
        ("tool", "danger", r"\b(?:identity_propose|memory_(?:write|append|delete)) ?\(|\b(?:identity_propose|memory_(?:write|append|delete)|send_e?mail|send_message|run_shell|shell_exec|execute_command|delete_files?|transfer_(?:money|funds)|http_(?:post|get)|make_payment|run_command)\b ?(?:tool\b|with\b|mit\b|avec\b|con\b|com\b|и\b|на\b|to\b)"),
        ("tool", "danger", r"\brm -[rf]{1,3} (?:--no-preserve-root )?[~/*$]|\b(?:curl|wget)\b[^\n|;]{1,200}\|\s?(?:sudo )?(?:ba|z|da)?sh\b|\bbase64 (?:-d|--decode)\b[^\n|]{0,80}\|\s?(?:ba)?sh\b|\bnc -[a-z]{0,4}e|/dev/tcp/|>> ?~?/?[a-z/.]{0,40}(?:authorized_keys|\.bashrc|crontab)|\bcurl\b[^\n]{0,120}(?:-d|--data|-f|-t|--data-binary|--upload-file) ?['\"]?@"),
        ("exfiltration", "danger", r"(?:https?|hxxps?)://[^\s\"'<>]{1,200}[?&=/#](?:\$?\{{1,2}|\[|<|%7b|\$\()[ \w-]{0,30}(?:secret|password|token|key|data|conversation|history|memory|memories|context|prompt|content|summary|chat|message|email|contacts?|credentials?|base64|encoded|info|session|cookie|user|insert|your|answer|env|text)[\w ,.-]{0,60}"),
        ("exfiltration", "danger", r"!\[[^\]\n]{0,100}\]\((?:https?:)?//[^\s)]{1,200}[?&/](?:[a-z]{1,12}=)?(?:\$?\{|\[|<|%7b|\$\()"),
        ("exfiltration", "danger", r"<img[^<>]{0,100}src ?= ?[\"']?https?://[^\s\"'>]{1,200}[?&][a-z]{1,12}=(?:\$?\{|\[|<|\"|'|%7b)"),
    )
)
_QUICK: Final = re.compile(r"[<\[{#`:|(=~>/]|rm -|curl|wget|tool|memory_|send_|run_|with")


def marks(text: str) -> Iterator[Mark | None]:
    """Return the marks in a folded text; None after each piece, so that others get a turn."""
    at = 0
    while at < len(text):
        end = min(len(text), at + _PIECE_CHARS)
        part = text[max(0, at - _OVERLAP_CHARS) : end]
        if _QUICK.search(part):
            for kind, severity, pattern in _MARKS:
                for found in pattern.finditer(text, max(0, at - _OVERLAP_CHARS), end):
                    yield Mark(kind, severity, found.start(), found.end())
                yield None
        at = end
        yield None
