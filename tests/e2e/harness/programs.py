"""Which servers and clients the tests run with: this machine's own, or those that tests/compat.sh names."""
import os

REDIS_SERVER = os.environ.get("REDIS_SERVER", "redis-server")  # or a valkey-server
REDIS_CLI = os.environ.get("REDIS_CLI", "redis-cli")
MARIADBD = os.environ.get("MARIADBD", "mariadbd")
MARIADB_INSTALL_DB = os.environ.get("MARIADB_INSTALL_DB", "mariadb-install-db")
MYSQLD = os.environ.get("MYSQLD")  # Oracle's; goes before MARIADBD
# config/package.json, as tests/run.sh had npm fetch it
NODE_MODULES = os.environ.get("NODE_MODULES", os.path.join(os.path.dirname(__file__), "../../../build/npm/node_modules"))
PYTHON_CLIENT = os.environ.get("PYTHON_CLIENT", "/usr/bin/python3")  # of the redis-py that is tried as a client
HIREDIS_ASYNC = os.environ.get("HIREDIS_ASYNC",
                               os.path.join(os.path.dirname(__file__), "../../../build/tests/e2e/hiredis_async"))
# Between malloc and tallyd. A sanitizer has an allocator of its own, and keeps for a while what is given back.
MALLOC_SHIM = os.environ.get("MALLOC_SHIM", os.path.join(os.path.dirname(__file__), "../../../build/tests/e2e/malloc_shim.so"))
SANITIZED = not os.path.exists(MALLOC_SHIM)
