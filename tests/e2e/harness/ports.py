"""TCP ports for servers that cannot be told 0."""
import socket

HELD = []


def port():
    """One that nobody else is given, a connection of the kernel's choice neither: it stays bound here, which is in the way of no
    server that binds it with SO_REUSEADDR, as all do."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    HELD.append(held)
    return held.getsockname()[1]
