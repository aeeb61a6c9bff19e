"""The standard input of a server: requests of bounded length."""

import io
import re
from typing import BinaryIO, Final

LONGEST_REQUEST: Final = 1 << 20
"""Maximal number of bytes of a request."""
_ENDS: Final = 4096
"""Bytes at both ends of a request that is too long, where its id is looked for."""
_ID: Final = re.compile(rb'"id"\s*:\s*(-?\d{1,18}|"[\w-]{1,80}")\s*[,}]')
_ESCAPES: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)


class Requests(io.BufferedIOBase):
    """A stream of lines.

    A line that is too long is dropped while it is read. A short request with the same id, which the
    server answers with an error, takes its place. Half of a surrogate pair becomes NUL, which no
    argument can have: the SDK would not answer the request.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._rest = b""

    def readable(self) -> bool:
        """Always true."""
        return True

    def read1(self, size: int = -1) -> bytes:
        """A part of the next line, nothing at the end."""
        if not self._rest:
            self._rest = self._next()
        most = len(self._rest) if size < 0 else size
        part, self._rest = self._rest[:most], self._rest[most:]
        return part

    def _next(self) -> bytes:
        line = self._stream.readline(LONGEST_REQUEST + 1)
        if len(line) <= LONGEST_REQUEST or line.endswith(b"\n"):
            return _ESCAPES.sub(_without_surrogate, line)
        first = last = line
        while last and not last.endswith(b"\n"):
            before, last = last, self._stream.readline(LONGEST_REQUEST)
        end = (before[-_ENDS:] + last)[-_ENDS:]
        # where clients put it: before the parameters, or after them
        match = _ID.search(first[:_ENDS]) or next(reversed(list(_ID.finditer(end))), None)
        number = match[1] if match else b"null"
        method = f"a request of more than {LONGEST_REQUEST} bytes".encode()
        return b'{"jsonrpc": "2.0", "id": %s, "method": "%s"}\n' % (number, method)


def _without_surrogate(escape: re.Match[bytes]) -> bytes:
    return escape[0] if escape["lone"] is None else rb"\u0000"
