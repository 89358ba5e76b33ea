"""What the runner starts for each test: hands its command line and outputs to the zygote.

    python -IS launcher.py SOCKET FLAG... ─▶ {length u32, flags split by NUL} with stdout and stderr
                                          ◀─ {exit status u8}

Nothing is imported that costs time: a whole run starts some two thousand of these.
"""

import _socket
import sys

_TWO_INTEGERS = b"".join(fd.to_bytes(4, sys.byteorder) for fd in (1, 2))


def main() -> int:
    """Return the exit status that the shim has ended with."""
    flags = "\0".join(sys.argv[2:]).encode("utf-8", "surrogateescape")
    zygote = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    zygote.connect(sys.argv[1])
    outputs = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, _TWO_INTEGERS)
    zygote.sendmsg([len(flags).to_bytes(4, "big") + flags], [outputs])
    status = zygote.recv(1)
    return status[0] if status else 1


if __name__ == "__main__":
    sys.exit(main())
