"""TCP ports for servers that cannot be told 0."""
import socket

HELD = []


def port():
    """One that is free at all addresses of this machine, and that the kernel gives to nobody else from now on: to no other test,
    and to no connection as its own end. It stays bound here until this process ends, which is in the way of no server that binds
    it with SO_REUSEADDR, as all do."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("0.0.0.0", 0))
    HELD.append(held)
    return held.getsockname()[1]
