"""Stops one thread of a process, the loop's, while its others go on: ptrace(2), which a SIGSTOP cannot do."""
import contextlib
import ctypes
import os

import pytest

SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000


@contextlib.contextmanager
def hung(process):
    """The main thread is stopped inside."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    if libc.ptrace(SEIZE, process.pid, None, None) != 0:
        pytest.skip(f"ptrace is not allowed here: {os.strerror(ctypes.get_errno())}")
    assert libc.ptrace(INTERRUPT, process.pid, None, None) == 0
    os.waitpid(process.pid, WALL)
    try:
        yield
    finally:
        assert libc.ptrace(DETACH, process.pid, None, None) == 0
