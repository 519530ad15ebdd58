"""The settings: defaults without a file, every problem at once with its line, and no secret accepted or shown."""

import itertools
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daycare import config
from daycare.base import permission
from daycare.base.consent import ApprovalRule, Consent
from daycare.base.cron import CronSection
from daycare.base.errors import BrokenError
from daycare.base.mcp_settings import McpServer
from daycare.config import Config, check, load

ROOT = Path(__file__).parent.parent
EXAMPLE = (ROOT / "config.example.toml").read_text()
UNCOMMENTED = re.sub(r"(?m)^#(?=\S)", "", EXAMPLE)
TOKEN = "123456789:" + "AAbbCCddEEffGGhhIIjjKKllMMnnOOppQQr"


def write(home: Path, text: str) -> Path:
    (home / "config.toml").write_text(text)
    return home


def problems(home: Path, text: str) -> list[str]:
    return [str(problem).removeprefix(f"{home}/") for problem in check(write(home, text))]


def test_missing_file_means_defaults(tmp_path: Path) -> None:
    assert load(tmp_path) == Config()
    assert load(write(tmp_path, "")) == Config()
    assert check(tmp_path) == []


def test_an_empty_section_that_the_example_had_before_is_read_past(tmp_path: Path) -> None:
    assert problems(tmp_path, '[agent]\nname = "Ann"\n\n[api]\n#tcp = ""\n') == []
    assert "api" in problems(tmp_path, '[api]\ntcp = "0.0.0.0:80"\n')[0]


def test_what_is_set_is_read_and_the_rest_stays_default(tmp_path: Path) -> None:
    found = load(
        write(
            tmp_path,
            '[daemon]\nidle_s = 5\n[models]\ndefault = "ollama/a"\nmemorySearch = "ollama/b:4b"\n'
            '[providers.ollama]\nbase_url = "http://127.0.0.1:11434/v1"\nbody = { top_k = 1 }\n'
            '[providers.work]\nkey = "openai"\n[plugins]\nload = ["my.plugin:made"]\n',
        )
    )
    assert found.daemon.idle_s == 5.0
    assert found.daemon.log_level == "info"
    assert found.models.by_role() == {"default": "ollama/a", "memorySearch": "ollama/b:4b"}
    assert set(found.providers) == {"offline", "ollama", "work"}
    assert found.providers["ollama"].key == "ollama"
    assert found.providers["ollama"].options == {"body": {"top_k": 1}}
    assert found.providers["work"].key == "openai"
    assert found.plugins.load == ("my.plugin:made",)


def test_offline_provider_is_always_there(tmp_path: Path) -> None:
    assert Config().providers["offline"].kind == "offline"
    for section in ("openai", "offline"):
        assert load(write(tmp_path, f"[providers.{section}]\n")).providers["offline"].kind == "offline"


def test_fallbacks_and_what_is_known_of_models_are_read(tmp_path: Path) -> None:
    found = load(
        write(
            tmp_path,
            '[models]\nfallbacks = ["openai/gpt-5-mini", "offline/rules"]\n[providers.ollama]\n'
            'models."qwen3:8b" = { context = 40960, images = false, input_usd = 0 }\n'
            "[providers.ollama.models.tiny]\noutput = 512\n",
        )
    )
    assert found.models.fallbacks == ("openai/gpt-5-mini", "offline/rules")
    assert found.models.by_role() == {"default": "offline/rules"}
    known = {model: section.known() for model, section in found.providers["ollama"].models.items()}
    assert known == {
        "qwen3:8b": {"context_tokens": 40_960, "images": False, "input_usd": 0.0},
        "tiny": {"output_tokens": 512},
    }
    assert found.providers["ollama"].options == {}


def test_what_is_wrong_with_a_model_is_told_with_its_line_and_the_near_key(tmp_path: Path) -> None:
    text = """[models]
fallbacks = ["gpt-5-mini", "offline/b"]
[providers.ollama]
models."qwen3:8b" = { contxt = 40960, input_usd = -1.0 }
models.tiny = 3
[providers.work]
model = {}
"""
    assert problems(tmp_path, text) == [
        'config.toml:2: models.fallbacks: expected "PROVIDER/MODEL" instead of "gpt-5-mini"',
        "config.toml:4: providers.ollama.models.'qwen3:8b'.contxt: unknown key; did you mean `context`?",
        "config.toml:4: providers.ollama.models.'qwen3:8b'.input_usd: expected `float` >= 0.0",
        "config.toml:5: providers.ollama.models.tiny: expected what is known of the model, such as"
        " { context = 32768, images = true }",
        "config.toml:7: providers.work.model: unknown key; did you mean `models`?",
    ]
    many = ", ".join(f'"offline/{number}"' for number in range(9))
    assert problems(tmp_path, f"[models]\nfallbacks = [{many}]\n") == [
        "config.toml:2: models.fallbacks: expected at most 8"
    ]


def test_models_of_providers_that_do_not_exist_are_told_with_the_near_one(tmp_path: Path) -> None:
    text = """[models]
default = "opnai/gpt-5"
user = "ollama/qwen3:8b"
task = "claude-haiku-5-5"
fallbacks = ["anthropic/claude-haiku-5-5", "box/large"]
"""
    assert problems(tmp_path, text) == [
        "config.toml:2: models.default: no provider is called opnai; did you mean `openai`?",
        "config.toml:5: models.fallbacks: no provider is called box; add a section [providers.box]",
    ]
    assert problems(tmp_path, text.replace("opnai", "openai") + "[providers.box]\n") == []


def test_unknown_key_is_told_with_its_line_and_the_near_one(tmp_path: Path) -> None:
    assert problems(tmp_path, '\n\n[models]\n# a comment\ndefualt = "offline/rules"\n') == [
        "config.toml:5: models.defualt: unknown key; did you mean `default`?"
    ]
    assert problems(tmp_path, "[modles]\n") == ["config.toml:1: modles: unknown section; did you mean `models`?"]


def test_every_problem_is_told_at_once_by_line(tmp_path: Path) -> None:
    text = """[daemon]
log_level = "loud"
turns_max_running = 0
idle_s = "long"
[store]
location = "mysql://u@h/db"
[agent]
operator = "Ann"
policy = "steer"
zone = "x"
[models]
default = "offline/"
[providers.Ollama]
base_url = "127.0.0.1:11434"
[plugins]
load = ["nothing"]
[apis]
"""
    found = [re.match(r"config.toml:(\d+): ([\w.]+): ", line) for line in problems(tmp_path, text)]
    assert [(int(match[1]), match[2]) for match in found if match] == [
        (2, "daemon.log_level"),
        (3, "daemon.turns_max_running"),
        (4, "daemon.idle_s"),
        (6, "store.location"),
        (8, "agent.operator"),
        (10, "agent.zone"),
        (12, "models.default"),
        (13, "providers.Ollama"),
        (14, "providers.Ollama.base_url"),
        (16, "plugins.load"),
        (17, "apis"),
    ]


def test_load_raises_every_problem_and_names_the_command(tmp_path: Path) -> None:
    write(tmp_path, "[daemon]\nidle = 1\n[agent]\nnames = 'x'\n")
    with pytest.raises(BrokenError) as caught:
        load(tmp_path)
    assert caught.value.code == "CONFIG_INVALID"
    assert caught.value.message.count("did you mean") == 2
    assert f"{tmp_path}/config.toml:4: agent.names" in caught.value.message
    assert caught.value.hint == "daycare config check"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[daemon]\nidle_s = \n", 2),
        ("[daemon]\nidle_s = 1\nidle_s = 2\n", 3),
        ('[agent]\nname = "never closed\n', 2),
        ("[agent]\n[agent]\n", 2),
        ("[daemon]\nlog_level = '''\n\n", 4),
    ],
)
def test_syntax_error_carries_its_line(tmp_path: Path, text: str, line: int) -> None:
    [problem] = check(write(tmp_path, text))
    assert problem.line == line
    assert problem.what


@pytest.mark.parametrize(
    "before",
    [
        'tone = """\n[models]\ndefualt = 1\n"""\n',
        "tone = '''\n'''\n\n#\n\n",
        'name = "a # [b]" # [x]\n',
        '"tone" = "x"\n\'name\'="y"\n',
    ],
)
def test_line_is_right_after_strings_and_comments(tmp_path: Path, before: str) -> None:
    text = f"[agent]\n{before}wrong = 1\n"
    [problem] = check(write(tmp_path, text))
    assert (problem.key, problem.line) == ("agent.wrong", text.count("\n"))


def test_line_is_right_after_long_lists_dotted_keys_and_inline_tables(tmp_path: Path) -> None:
    text = (
        'daemon.idel_s = 1\nmodels = { default = "offline/b", usr = "c/d" }\n'
        '[plugins]\nload = [\n  "a:b",\n  "[c]:d",\n]\nx = 1\n'
    )
    assert [(p.line, p.key) for p in check(write(tmp_path, text))] == [
        (1, "daemon.idel_s"),
        (2, "models.usr"),
        (4, "plugins.load"),
        (8, "plugins.x"),
    ]


def test_value_in_place_of_a_section_and_section_lists_are_told(tmp_path: Path) -> None:
    found = problems(tmp_path, 'store = "x"\nproviders = 1\n[[agent]]\n')
    assert found == [
        "config.toml:1: store: is a section: write [store]",
        "config.toml:2: providers: is a section: write [providers.NAME]",
        "config.toml:3: agent: is a section: write [agent]",
    ]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('[providers.openai]\napi_key = "hunter22"\n', "openai"),
        ('[providers.openai]\nkey = "sk-hunter22hunter22"\n', "openai"),
        ('[providers.openai]\nbase_url = "https://me:hunter22@example.org/v1"\n', "openai"),
        ('[providers.openai]\nheaders = { Authorization = "Bearer hunter22" }\n', "openai"),
        ('[providers.openai]\nbody = { stop = ["sk-hunter22hunter22"] }\n', "openai"),
        ('[agent]\ntoken = "hunter22"\n', "NAME"),
        (f'[agent]\nname = "{TOKEN}"\n', "NAME"),
        ('[providers]\ntoken = "hunter22"\n', "NAME"),
        ('secret = "hunter22"\n', "NAME"),
    ],
)
def test_secret_is_refused_with_the_command_and_not_repeated(tmp_path: Path, text: str, name: str) -> None:
    [problem] = check(write(tmp_path, text))
    assert f"daycare keys add {name}`" in problem.what
    assert "hunter22" not in str(problem)
    assert TOKEN not in str(problem)


def test_key_that_is_no_name_is_not_repeated(tmp_path: Path) -> None:
    [problem] = check(write(tmp_path, '[providers.x]\nkey = "Hunter22"\n'))
    assert (problem.key, problem.line) == ("providers.x.key", 2)
    assert "Hunter22" not in problem.what


def test_slip_in_a_provider_is_no_option(tmp_path: Path) -> None:
    assert problems(tmp_path, '[providers.x]\nbase_ulr = "http://x/v1"\n') == [
        "config.toml:2: providers.x.base_ulr: unknown key; did you mean `base_url`?"
    ]


def test_a_plugins_setting_may_name_its_own_stored_secret_and_no_other(tmp_path: Path) -> None:
    text = '[plugins.bridge.to.signal]\nsecrets = {{ SIGNAL_TOKEN = "{}" }}\n'
    assert not problems(tmp_path, text.format("bridge.signal"))
    for other in ("telegram", "bridge.Not A Name", "bridgework"):
        assert problems(tmp_path, text.format(other)), other


def test_number_of_tokens_is_no_secret(tmp_path: Path) -> None:
    assert check(write(tmp_path, "[providers.x]\nbody = { max_tokens = 5, token = 3 }\n")) == []


def test_file_that_is_no_text_or_endless_or_a_folder_is_one_problem(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_bytes(b"[agent]\nname = '\xff'\n")
    assert [(p.line, p.what) for p in check(tmp_path)] == [(2, "is not written in UTF-8")]
    assert "longer than" in problems(tmp_path, "#" * 300_000)[0]
    (tmp_path / "config.toml").unlink()
    (tmp_path / "config.toml").mkdir()
    assert "cannot be read" in str(check(tmp_path)[0])


def test_windows_editors_are_understood(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_bytes('\ufeff[agent]\r\nname = "x"\r\nnam = 1\r\n'.encode())
    assert [(p.line, p.key) for p in check(tmp_path)] == [(3, "agent.nam")]


def test_huge_list_before_a_problem_does_not_hang(tmp_path: Path) -> None:
    text = "[plugins]\ndisable = [\n" + '"a",\n' * 20_000 + "]\n[agent]\nx = 1\n"
    assert [p.key for p in check(write(tmp_path, text))] == ["agent.x"]


# -- approvals ---------------------------------------------------------------------------------------------------------


def test_policies_of_memory_tools_are_read_in_their_order(tmp_path: Path) -> None:
    text = """
[approvals]
memory_append = "session"
identity_propose = "always"
[approvals.z]
policy = "auto"
documents = "knowledge/"
origins = ["person"]
[approvals.a]
policy = "always"
tools = ["memory_append_daily"]
origins = ["forward", "group"]
"""
    read = load(write(tmp_path, text)).approvals
    assert (read.memory_append, read.memory_write) == (Consent.SESSION, Consent.ALWAYS)
    assert list(read.rules) == ["z", "a"]
    assert read.of("identity_propose") is Consent.ALWAYS and read.of("memory_read") is Consent.AUTO


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[approvals]\nmemory_write = "never"\n', "config.toml:2: approvals.memory_write: invalid enum value 'never'"),
        ('[approvals]\nmemory_writ = "auto"\n', "approvals.memory_writ: unknown key; did you mean `memory_write`?"),
        ('[approvals]\nidentity_propose = "auto"\n', "approvals.identity_propose: is always asked for"),
        ('[approvals]\nidentity_propose = "session"\n', "config.toml:2: approvals.identity_propose: is always asked"),
        ("[approvals]\nidentity_propose = true\n", "approvals.identity_propose: is always asked for"),
        ('[approvals]\nmemory_read = "always"\n', "approvals.memory_read: is never asked for, as it only reads"),
        ('[approvals.x]\ntools = ["memory_write"]\n', "approvals.x.policy: is needed"),
        ('[approvals.x]\npolicy = "maybe"\n', "config.toml:2: approvals.x.policy: invalid enum value 'maybe'"),
        ('[approvals.x]\npolicy = "auto"\ntool = []\n', "approvals.x.tool: unknown key; did you mean `tools`?"),
        (
            '[approvals.x]\npolicy = "auto"\ntools = ["memory_wirte"]\n',
            "config.toml:3: approvals.x.tools: memory_wirte is no memory tool; did you mean `memory_write`?",
        ),
        (
            '[approvals.x]\npolicy = "auto"\ntools = ["identity_propose"]\n',
            "approvals.x.tools: identity_propose is always asked for",
        ),
        ('[approvals.x]\npolicy = "auto"\nagents = "ann"\n', "approvals.x.agents: expected the path of an agent"),
        ('[approvals.x]\npolicy = "auto"\ndocuments = "SOUL.md"\n', "approvals.x.documents: identity is always asked"),
        (
            '[approvals.x]\npolicy = "auto"\ndocuments = "shared/USER.md"\n',
            "approvals.x.documents: identity is always asked",
        ),
        (
            '[approvals.x]\npolicy = "auto"\ndocuments = "global/knowledge"\n',
            "approvals.x.documents: what concerns everybody is always asked for",
        ),
        (
            '[approvals.x]\npolicy = "auto"\ndocuments = "../x"\n',
            "approvals.x.documents: expected a document or a folder",
        ),
        (
            '[approvals.x]\npolicy = "session"\norigins = ["person", "forward"]\n',
            "config.toml:3: approvals.x.origins: what builds on words from forward is always asked for",
        ),
        ('[approvals.x]\npolicy = "auto"\norigins = ["web"]\n', "approvals.x.origins: invalid enum value 'web'"),
    ],
)
def test_a_wrong_policy_is_told_by_its_key(tmp_path: Path, text: str, told: str) -> None:
    [problem] = problems(tmp_path, text)
    assert told in problem


# -- the example -------------------------------------------------------------------------------------------------------


def test_example_parses_as_it_is_and_uncommented(tmp_path: Path) -> None:
    assert load(write(tmp_path, EXAMPLE)) == Config()
    assert check(write(tmp_path, UNCOMMENTED)) == []


def test_example_shows_the_defaults(tmp_path: Path) -> None:
    shown = load(write(tmp_path, UNCOMMENTED))
    for section in ("daemon", "store", "agent", "plugins"):
        assert getattr(shown, section) == getattr(Config(), section)
    assert shown.models.default == Config().models.default


def named(section: type[msgspec.Struct]) -> set[str]:
    """Return the keys of a section, and of those within it as `retrieval.weights.logs`."""
    keys = set()
    for field in msgspec.structs.fields(section):
        inner = field.type if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct) else None
        keys |= {f"{field.encode_name}.{key}" for key in named(inner)} if inner else {field.encode_name}
    return keys - {"settings", "rules"}


def keys_of(table: dict[str, Any]) -> set[str]:
    """Return the keys of a table likewise; those of a part that approvals name freely count as one."""
    keys = set()
    for key, value in table.items():
        free = not isinstance(value, dict) or key in ("notes", "weather")
        keys |= {key} if free else {f"{key}.{inner}" for inner in keys_of(value)}
    return keys


def test_example_names_every_key_and_says_why() -> None:
    shown = tomllib.loads(UNCOMMENTED)
    for section in msgspec.structs.fields(Config):
        if section.name == "providers":
            assert {*config.ProviderSection.__struct_fields__[:-1], "body"} == set(shown["providers"]["ollama"])
        elif section.name == "cron":
            assert set(CronSection.__struct_fields__) == set(shown["cron"]["morning"])
        elif section.name == "mcp":
            servers = shown["mcp"]
            assert set(McpServer.__struct_fields__) == {*servers["time"], *servers["tracker"]}
        elif section.name == "rules":
            assert set(permission.Rule.__struct_fields__) == set(shown["rules"][0])
        else:
            assert named(section.type) == keys_of(shown[section.encode_name]) - {"notes"}
    assert set(ApprovalRule.__struct_fields__) == set(shown["approvals"]["notes"])
    lines = [re.sub(r"^#models\S+ =", "#models =", line) for line in EXAMPLE.splitlines()]
    for before, line in itertools.pairwise(lines):
        if re.match(r"#\w+ =", line):
            assert before.startswith("# "), f"no reason above {line}"


def test_every_key_stands_in_the_page_on_configuration() -> None:
    page = (ROOT / "doc/operate/configuration.md").read_text()
    for name, found in tomllib.loads(UNCOMMENTED).items():
        section = found[0] if isinstance(found, list) else found
        inner = {"providers": section.get("ollama"), "approvals": {**section.pop("notes", {}), **section}}
        inner["cron"] = section.get("morning")
        inner["mcp"] = {**section.get("time", {}), **section.get("tracker", {})}
        if name in ("memory", "voice", "files"):
            inner[name] = {key.rpartition(".")[2]: 0 for key in keys_of(section)}
        for key in inner.get(name) or section:
            assert re.search(rf"^\| `{key}` \|", page, re.M), f"doc/operate/configuration.md lacks {name}.{key}"


def test_reading_the_settings_loads_nothing_slow() -> None:
    program = (
        "import daycare.config, sys; raise SystemExit(bool({'trio', 'structlog', 'cryptography'} & {*sys.modules}))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
