"""A private mariadbd, or Oracle's mysqld, on a unix socket, its data directory copied from one that was installed once."""
import getpass
import os
import shutil
import subprocess

import pymysql

from harness.process import Process
from harness.programs import MARIADB_INSTALL_DB, MARIADBD, MYSQLD
from harness.wait import patience

# What is said otherwise to MariaDB and to MySQL.
if MYSQLD:
    PRODUCT, SERVER, NO_PAD = "MySQL", MYSQLD, "utf8mb4_0900_bin"
    SMALL = ["--innodb-redo-log-capacity=32M", "--innodb-buffer-pool-size=64M", "--mysqlx=OFF",
             "--secure-file-priv=NULL", "--tls-version="]  # which Oracle's library has unasked, and a proxy sees nothing
    INSTALL = [MYSQLD, "--no-defaults", "--initialize-insecure"]
else:
    PRODUCT, SERVER, NO_PAD = "MariaDB", MARIADBD, "utf8mb4_nopad_bin"
    SMALL = ["--innodb-log-file-size=16M", "--innodb-buffer-pool-size=64M"]
    INSTALL = [MARIADB_INSTALL_DB, "--no-defaults", "--skip-test-db", "--auth-root-authentication-method=normal",
               "--force"]  # where the host's own name cannot be looked up, too


def install_template(directory):
    """An installed, empty data directory under `directory`, to be copied."""
    data = os.path.join(directory, "template")
    done = subprocess.run(
        [*INSTALL, f"--datadir={data}", f"--user={getpass.getuser()}", *SMALL],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=patience(300), check=False,
        env={**os.environ, "TMPDIR": directory})  # a starting server clears its tmpdir of others' temporary tables
    assert done.returncode == 0, done.stdout
    if os.path.exists(f"{data}/auto.cnf"):
        os.unlink(f"{data}/auto.cnf")  # MySQL's name of this one server: a copy is another one
    return data


def numbers(last, alias="numbers"):
    """A table of 1 to last, at most 1000, in its column seq. MariaDB alone has seq_1_to_<last>."""
    return f"(WITH RECURSIVE s (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM s WHERE seq < {last}) SELECT seq FROM s) {alias}"


class MariaDB(Process):
    name = "mariadbd"

    def __init__(self, directory, template, extra=()):
        super().__init__(directory)
        self.data = os.path.join(directory, "data")
        self.socket = os.path.join(directory, "mysql.sock")
        self.extra = list(extra)
        shutil.copytree(template, self.data)

    @property
    def url(self):
        return f"mysql://root@localhost/shop?socket={self.socket}"

    def argv(self):
        return [SERVER, "--no-defaults", f"--datadir={self.data}", f"--socket={self.socket}",
                f"--tmpdir={self.directory}", f"--pid-file={self.directory}/mariadbd.pid", "--skip-networking",
                f"--user={getpass.getuser()}",
                "--innodb-flush-log-at-trx-commit=1", "--skip-name-resolve", "--innodb-fast-shutdown=2", *SMALL,
                *self.extra]

    def is_ready(self):
        self.connect(database=None).close()
        return True

    def connect(self, database="shop"):
        return pymysql.connect(unix_socket=self.socket, user="root", database=database, autocommit=True,
                               charset="utf8mb4", read_timeout=patience(60), write_timeout=patience(60), connect_timeout=patience(10))

    def query(self, sql, arguments=None):
        """All rows of one statement, in a session of its own."""
        return self.query_bare(sql, arguments, "USE shop")

    def query_bare(self, sql, arguments=None, *before):
        """Likewise, in no database."""
        link = self.connect(database=None)
        try:
            with link.cursor() as cursor:
                for each in before:
                    cursor.execute(each)
                cursor.execute(sql, arguments)
                return cursor.fetchall()
        finally:
            link.close()

    def fresh_database(self):
        self.query_bare("CREATE DATABASE shop CHARACTER SET utf8mb4", None, "DROP DATABASE IF EXISTS shop")

    def fresh_user(self, account, password):
        self.query(f"DROP USER IF EXISTS {account}")
        self.query(f"CREATE USER {account} IDENTIFIED BY %s", (password,))
