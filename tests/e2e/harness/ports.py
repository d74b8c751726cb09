"""TCP ports for servers that cannot be told 0."""
import socket

HELD = []


def port():
    """One that no other program is given, nor the kernel for a connection: it stays bound here, which is in the way of no
    server that binds it with SO_REUSEADDR, as all do."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    HELD.append(held)
    return held.getsockname()[1]


def held_on(hosts):
    """One that is free and stays held at all these addresses of this machine."""
    while True:
        number, held = port(), []
        try:
            for host in hosts:
                if host == "127.0.0.1":
                    continue
                held.append(socket.socket())
                held[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                held[-1].bind((host, number))
        except OSError:
            continue
        HELD.extend(held)
        return number
