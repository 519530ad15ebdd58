"""The example in doc/extend/bridge.md keeps the protocol that the page describes."""

import sys
from pathlib import Path

import msgspec

from daycare.config import load
from daycare.testing.bridge_suite import Suite
from daycare_plugins.bridge.settings import BridgePluginSettings

PAGE = Path(__file__).parents[2] / "doc" / "extend" / "bridge.md"


def example() -> str:
    text = PAGE.read_text(encoding="utf-8")
    return text.split("<!-- example -->\n```python\n")[1].split("```\n<!-- /example -->")[0]


def test_the_example_is_as_short_as_is_said() -> None:
    lines = [line for line in example().splitlines() if line.strip()]
    assert len(lines) <= 46


async def test_the_example_conforms(tmp_path: Path) -> None:
    script = tmp_path / "echo.py"
    script.write_text(example())
    suite = Suite([sys.executable, str(script)])
    assert await suite.run(), [check for check in suite.checks if check.state == "failed"]
    states = {check.name: check.state for check in suite.checks}
    assert states["sends nothing twice under one key, also after it was killed"] == "ok"
    assert states["carries files both ways"] == "skipped"


async def test_the_settings_on_the_page_are_taken(tmp_path: Path) -> None:
    for page in PAGE.read_text(encoding="utf-8").split("```toml\n")[1:]:
        (tmp_path / "config.toml").write_text(page.split("```")[0])
        to = load(tmp_path).plugins.settings["bridge"]["to"]
        assert msgspec.convert({"to": to}, BridgePluginSettings).to["signal"].command
