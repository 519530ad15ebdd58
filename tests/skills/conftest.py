"""A daemon with a scripted model whose API is on a socket, and skills in its home."""

from tests.panels.conftest import panels

__all__ = ["panels"]
