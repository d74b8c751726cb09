"""Two MySQL servers on TCP: a primary and its replica, whose roles a test changes; and a Galera node."""
import os

import pymysql

from harness.mariadb import MYSQLD, MariaDB
from harness.ports import port
from harness.programs import MARIADBD
from harness.wait import wait_until

GALERA = "/usr/lib/galera/libgalera_smm.so"
USER = "tally@'127.0.0.1'"

if MYSQLD:
    LOGS = ["--gtid-mode=ON", "--enforce-gtid-consistency=ON"]
    # SSL=0: else it asks for TLS, which harness/mariadb.py turns off
    FOLLOW = ("CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, SOURCE_USER='copy',"
              " SOURCE_AUTO_POSITION=1, SOURCE_CONNECT_RETRY=1, SOURCE_SSL=0", "START REPLICA")
    LEAVE = ("STOP REPLICA", "RESET REPLICA ALL")
    DELAY = ("STOP REPLICA", "CHANGE REPLICATION SOURCE TO SOURCE_DELAY={seconds}", "START REPLICA")
    WRITTEN, REACHED = "SELECT @@global.gtid_executed", "SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, 30)"
else:
    # no COMMIT is answered, or seen by others, that the replica has not got
    LOGS = ["--log-bin", "--log-slave-updates", "--rpl-semi-sync-master-timeout=60000",
            "--rpl-semi-sync-master-wait-point=AFTER_SYNC", "--rpl-semi-sync-slave-enabled=ON"]
    FOLLOW = ("CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='copy',"
              " MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1", "START SLAVE")
    LEAVE = ("STOP SLAVE", "RESET SLAVE ALL")
    DELAY = ("STOP SLAVE", "CHANGE MASTER TO MASTER_DELAY={seconds}", "START SLAVE")
    WRITTEN, REACHED = "SELECT @@global.gtid_binlog_pos", "SELECT MASTER_GTID_WAIT(%s, 30)"


class Server(MariaDB):
    """One that listens on TCP, too."""

    def __init__(self, directory, template, *extra):
        os.mkdir(directory)
        self.port = port()
        super().__init__(directory, template, ["--skip-networking=0", "--bind-address=127.0.0.1", f"--port={self.port}",
                                               "--sync-binlog=1", *extra])

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def prepare(self):
        """tallyd's database, and its user, which may not write where it is read-only."""
        self.fresh_database()
        self.query(f"CREATE USER {USER}")
        self.query(f"GRANT ALL ON shop.* TO {USER}")
        return self

    def users(self):
        """How many sessions tallyd has."""
        return self.query("SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'tally'")[0][0]

    def refuse_writes(self):
        """Its sessions live."""
        self.query("SET GLOBAL read_only = ON")


class Pair:
    def __init__(self, directory, template):
        self.old, self.new = (Server(f"{directory}/{name}", template, *LOGS, f"--server-id={at + 1}").start()
                              for at, name in enumerate(("old", "new")))
        self.old.query_bare("CREATE USER copy@'127.0.0.1'")
        self.old.query_bare("GRANT REPLICATION SLAVE ON *.* TO copy@'127.0.0.1'")
        for sql in FOLLOW:
            self.new.query_bare(sql.format(port=self.old.port))
        self.old.prepare()
        self.catch_up()
        self.new.refuse_writes()

    @property
    def url(self):
        return f"mysql://tally@{self.old.address},{self.new.address}/shop"

    def catch_up(self):
        """The replica has all that the primary has."""
        written = self.old.query_bare(WRITTEN)[0][0]
        assert self.new.query_bare(REACHED, (written,))[0][0] == 0

    def wait_for_replica(self):
        """From now on a COMMIT does (MariaDB)."""
        self.old.query("SET GLOBAL rpl_semi_sync_master_enabled = ON")
        wait_until(lambda: dict(self.old.query("SHOW STATUS LIKE 'Rpl_semi_sync_master_clients'")) ==
                   {"Rpl_semi_sync_master_clients": "1"}, 30, "the replica answers COMMITs")

    def apply_all(self):
        """The replica has applied what it got (MariaDB)."""
        def applied():
            link = self.new.connect()
            try:
                with link.cursor(pymysql.cursors.DictCursor) as cursor:
                    cursor.execute("SHOW SLAVE STATUS")
                    got = cursor.fetchone()["Gtid_IO_Pos"]
                    cursor.execute("SELECT @@global.gtid_slave_pos AS has")
                    return set(got.split(",")) == set(cursor.fetchone()["has"].split(","))
            finally:
                link.close()

        wait_until(applied, 60, "the replica applied what it got")

    def fall_behind(self):
        """The replica gets nothing any more."""
        self.new.query(LEAVE[0])

    def lag(self, seconds):
        """The replica applies everything so much later."""
        for sql in DELAY:
            self.new.query_bare(sql.format(seconds=seconds))

    def promote(self):
        for sql in LEAVE:
            self.new.query(sql)
        self.new.query("SET GLOBAL read_only = OFF")

    def close(self):
        self.old.close()
        self.new.close()


class GaleraNode(Server):
    def __init__(self, directory, template):
        group = port()
        super().__init__(directory, template, "--wsrep-on=ON", f"--wsrep-provider={GALERA}", "--binlog-format=ROW",
                         "--innodb-autoinc-lock-mode=2", "--wsrep-cluster-name=shop", "--wsrep-cluster-address=gcomm://",
                         f"--wsrep-node-address=127.0.0.1:{group}", "--wsrep-new-cluster",
                         f"--wsrep-provider-options=base_port={group};gmcast.listen_addr=tcp://127.0.0.1:{group};"
                         f"ist.recv_addr=127.0.0.1:{port()}")

    def ready(self):
        return dict(self.query_bare("SHOW STATUS LIKE 'wsrep_ready'"))["wsrep_ready"] == "ON"

    def leave(self):
        """It is in no cluster any more: error 1047 for any query of a table."""
        self.query_bare("SET GLOBAL wsrep_cluster_address = 'gcomm://127.0.0.1:1'")

    def come_back(self):
        self.query_bare("SET GLOBAL wsrep_cluster_address = 'gcomm://'")


def galera_missing():
    if MYSQLD or MARIADBD != "mariadbd":
        return "Galera is tried with Debian's MariaDB"
    return None if os.path.exists(GALERA) else "no package galera-4"
