"""What the process of a daemon does not load."""

import subprocess
import sys


def test_a_daemon_loads_no_command_line_of_a_library() -> None:
    """With httpx come its command line, rich and a highlighter: 4 MB that no daemon needs."""
    program = "import sys; from daycare.process import tune; tune(); import httpx; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "httpx" in done.stdout.split()
    assert {"rich", "click", "pygments"}.isdisjoint(done.stdout.split())
