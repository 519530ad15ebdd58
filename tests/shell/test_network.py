"""What a command reaches by the network: hosts that are named, by https, on the public Internet; and nothing else."""

from collections.abc import Sequence
from functools import partial
from ipaddress import ip_network
from pathlib import Path

import trio
from msgspec.structs import replace

from daycare.base.clock import SystemClock
from daycare.base.workspace import ShellSection, WorkspacesSection, flaws
from daycare.features.shell.network import HostProxy, network_of
from daycare.features.shell.running import ShellRun
from daycare.features.shell.sandbox import why_not
from daycare.features.workspaces.folder import WorkspaceFolder
from daycare.public_network import PublicNetwork

HOSTS = ("good.example", "*.many.example", "inside.example")
BOUNDS = ShellSection(enabled=True, seconds=20, hosts=HOSTS)
HOUSE = {"good.example": "127.0.0.1", "a.many.example": "127.0.0.1", "inside.example": "10.0.0.7"}
ASK = (
    "import socket, sys\n"
    's = socket.create_connection(("127.0.0.1", 3128))\n'
    's.sendall(sys.argv[1].encode() + b" HTTP/1.1\\r\\n\\r\\nhello")\n'
    "s.shutdown(1)\n"
    "while d := s.recv(1000): print(d.decode())\n"
)


async def outcome(folder: Path, command: str, hosts: Sequence[str] = HOSTS) -> tuple[str, str]:
    """Run a command beside a server of the house; return what it prints, and what it did not reach."""

    async def echo(stream: trio.SocketStream) -> None:
        async with stream:
            async for data in stream:
                await stream.send_all(b"heard " + bytes(data))

    async with trio.open_nursery() as nursery:
        [listener] = await nursery.start(partial(trio.serve_tcp, echo, 0, host="127.0.0.1"))
        port = listener.socket.getsockname()[1]

        async def resolve(host: str, _port: int) -> list[str]:
            return [HOUSE[host]]

        async def dial(address: str, _port: int) -> trio.SocketStream:
            return await trio.open_tcp_stream(address, port)

        network = PublicNetwork([ip_network("127.0.0.1/32")], resolve, dial)
        place = WorkspaceFolder(folder, "ws", make=True)
        (folder / "ws").mkdir(exist_ok=True)
        (folder / "ws" / "ask.py").write_text(ASK)
        run = ShellRun(command.replace("PORT", str(port)), place, BOUNDS, SystemClock(), lambda _: None)
        async with network_of(hosts, network) as (door, proxy):
            result = await trio.to_thread.run_sync(partial(run.run, door))
        nursery.cancel_scope.cancel()
    return result.output, str(proxy)


CASES = {
    "CONNECT good.example:443": "heard hello",
    "CONNECT A.Many.Example:443": "heard hello",
    "CONNECT many.example:443": "403",
    "CONNECT evil-good.example:443": "403",
    "CONNECT good.example.evil.example:443": "403",
    "CONNECT good.example:22": "403",
    "CONNECT 127.0.0.1:443": "403",
    "CONNECT 169.254.169.254:443": "403",
    "CONNECT [::1]:443": "403",
    "CONNECT inside.example:443": "403 inside.example is not on the public Internet",
    "CONNECT good.example:443@evil.example:443": "403",
    "GET http://good.example/": "405",
    "nonsense": "405",
}


def test_doctor_tries_a_sandbox_that_reaches_hosts() -> None:
    assert why_not(reaching=True) == ("", "")


async def test_only_named_hosts_are_reached(tmp_path: Path) -> None:
    output, refused = await outcome(tmp_path, "; ".join(f"python3 ask.py '{each}'; echo END" for each in CASES))
    for (wanted, said), printed in zip(CASES.items(), output.split("END"), strict=False):
        assert said in printed and ("heard" in printed) is (said == "heard hello"), (wanted, printed)
    assert refused.startswith("not reached, as [shell] hosts does not name it: ")


async def test_beside_the_proxy_there_is_no_way_out(tmp_path: Path) -> None:
    try_all = (
        "ls -l /proc/self/fd | grep -c socket:; env | grep -ci proxy;"
        " python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", PORT))' 2>&1 | tail -1;"
        " python3 -c 'import socket; socket.create_connection((\"93.184.215.14\", 443), 2)' 2>&1 | tail -1"
    )
    output, _ = await outcome(tmp_path, try_all)
    assert output.split("\n")[:2] == ["0", "3"], output
    assert "refused" in output.split("\n")[2] and "unreachable" in output.split("\n")[3], output
    output, _ = await outcome(tmp_path, "env | grep -ci proxy; python3 ask.py x 2>&1 | tail -1", ())
    assert output.startswith("0\n") and "refused" in output, "without hosts there is no proxy"


def test_a_host_is_a_name() -> None:
    assert list(flaws(WorkspacesSection(), BOUNDS)) == []
    for wrong in ("", "*", "*.com.", "10.0.0.1", "https://a.example", "a.example:443", "a b.example", "A.example"):
        [(key, _)] = flaws(WorkspacesSection(), replace(BOUNDS, hosts=(wrong,)))
        assert key == ("shell", "hosts"), wrong
    assert not HostProxy(("*.a.example",), PublicNetwork()).allows("a.example")
