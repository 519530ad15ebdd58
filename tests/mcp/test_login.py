"""A server that wants a login: a link for a person, then tokens that are sealed, and renewed by themselves."""

import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import trio

from daycare.base.errors import DaycareError, NotFoundError
from daycare.base.mcp_settings import McpServer
from daycare.features.mcp.frames import McpCode
from tests.mcp.house import ALL, approve_all, house_of, patience, state, until
from tests.network.conftest import free_port


async def test_a_person_logs_in_once_and_what_that_leaves_is_sealed_and_renewed(tmp_path: Path) -> None:
    port = free_port()
    with subprocess.Popen([sys.executable, str(Path(__file__).parent / "guarded.py"), str(port)]) as guarded:
        try:
            await _answers(port)
            settings = McpServer(url=f"http://127.0.0.1:{port}/mcp", allow=ALL)
            async with house_of(tmp_path, guarded=settings) as scene:
                servers = scene.house.daemon.mcp.servers
                await until(lambda: state(scene, "guarded") == "failed")
                assert "wants a login: daycare mcp login" in servers.shown()[0].problem
                with pytest.raises(NotFoundError, match="begin first"):
                    await servers.logged_in("guarded", McpCode(code="x", state="y"))
                with patience():
                    came = await _follow(await servers.login("guarded", "http://127.0.0.1:9/callback"))
                    with pytest.raises(DaycareError):  # a forged state
                        await servers.logged_in("guarded", McpCode(code=came["code"], state="other"))
                    came = await _follow(await servers.login("guarded", "http://127.0.0.1:9/callback"))
                    await servers.logged_in("guarded", McpCode(code=came["code"], state=came["state"]))
                sealed = scene.house.store.secrets.get("mcp-login.guarded")
                assert sealed is not None and b"access_token" not in sealed
                await approve_all(scene, "guarded")
                [tool] = await servers.tools("guarded")
                with patience():
                    while scene.house.store.secrets.get("mcp-login.guarded") == sealed:  # until it is renewed
                        await servers.call(tool, {})
                        await trio.sleep(0.2)
                    await servers.restart("guarded")
                    result = await servers.call(tool, {})
                assert result.text == "under the old oak"
        finally:
            guarded.kill()


async def _answers(port: int) -> None:
    with patience():
        while True:
            try:
                async with httpx.AsyncClient() as client:
                    await client.get(f"http://127.0.0.1:{port}/")
                return
            except httpx.TransportError:
                await trio.sleep(0.05)


async def _follow(link: str) -> dict[str, str]:
    async with httpx.AsyncClient() as client:
        answer = await client.get(link)
    assert answer.status_code == 302, answer.text
    return {name: values[0] for name, values in parse_qs(urlsplit(answer.headers["location"]).query).items()}
