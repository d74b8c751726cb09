#!/bin/sh
# config/dev.sh - what `tallyd dev` becomes. Starts redis-server, mariadbd and tallyd under one directory, watches them, and stops
# them in the order in which hits flow (tallyd, mariadbd, redis-server), so nothing is lost.
#   dev.sh TALLYD DIR MASTERS FILE SECONDS EXAMPLES 3<CONFIGURATION
#   DIR/redis/, DIR/mysql/      data; with --cluster DIR/redis-1/ to DIR/redis-2N/, each with its redis.conf
#   DIR/tallyd.yaml             what tallyd runs with, also for `tallyd verify -c`
#   DIR/NAME.sock, NAME.log     unix sockets, and what they say
#   DIR/NAME.pid, dev.lock      what runs, so that the next dev finds what a killed one left
#   DIR/cluster                 the number of masters, once the cluster is whole; without it the nodes are made again
set -u
export LC_ALL=C PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
umask 077
tallyd=$1 masters=$3 file=$4 every=$5 examples=$6
stop= nodes=redis taken=' '
trap 'stop=1' INT TERM HUP

say() { printf '%s\n' "$*"; }

fail() { # STATUS TEXT
    status=$1
    shift
    printf 'tallyd: %s\n' "$*" >&2
    quit "$status"
}

unusable() { # PATH WHY
    case $2 in
    *denied | *permitted | Read-only*) next='choose a directory that you can write to, with --dir' ;;
    'No space'* | *quota*) next='free some space, or choose another with --dir' ;;
    *) next='choose another with --dir' ;;
    esac
    fail 1 "cannot use $1: $2; $next"
}

# --- children, by the stem of their files

name_of() {
    case $1 in
    mysql) echo mariadbd ;;
    redis-*) echo "redis-server ${1#redis-}" ;;
    redis) echo redis-server ;;
    *) echo "$1" ;;
    esac
}

need() { # COMMAND PACKAGE
    command -v "$1" >/dev/null || fail 69 "$1 is not installed: apt-get install $2"
}

# In a session of its own, so that Ctrl-C reaches only this script; the kernel sends it SIGTERM when this script dies.
spawn() { # STEM COMMAND...
    stem=$1
    shift
    setsid setpriv --pdeathsig TERM "$@" </dev/null >>"$dir/$stem.log" 2>&1 3<&- 9>&- &
    echo $! >"$dir/$stem.pid"
}

is_alive() { # sets pid; one that ended is a zombie until it is waited for
    { read -r pid <"$dir/$1.pid" && read -r stat <"/proc/$pid/stat"; } 2>/dev/null && case ${stat##*) } in Z*) false ;; esac
}

ending_of() { # sets status and how
    read -r pid <"$dir/$1.pid"
    wait "$pid"
    status=$?
    rm -f "$dir/$1.pid"
    how="ended with status $status"
    if [ $status -gt 128 ]; then how="was killed by signal $((status - 128)) ($(kill -l "$status"))"; fi
}

died() { # STEM NAME: it ended by itself, as ending_of said
    tail -c 1200 "$dir/$1.log" | sed 's/^/    /' >&2
    fail 1 "$2 $how; above are the last lines of $dir/$1.log. Answered hits are on disk: \`tallyd dev\` with the same --dir" \
        "goes on from there"
}

await() { # STEM TEST...: until the test succeeds, or dev is told to stop
    stem=$1 until=$(($(date +%s) + 120))
    shift
    while [ -z "$stop" ] && ! "$@" >/dev/null 2>&1; do
        is_alive "$stem" || { ending_of "$stem" && died "$stem" "$(name_of "$stem")"; }
        [ "$(date +%s)" -le $until ] || fail 1 "$(name_of "$stem") is not ready after 120 s; its log is $dir/$stem.log"
        sleep 0.1
    done
}

once() { # STEM NAME COMMAND...: until it ends, well
    stem=$1 name=$2
    shift 2
    spawn "$stem" "$@"
    while is_alive "$stem"; do
        [ -z "$stop" ] || kill -s TERM -- "-$pid"
        sleep 0.1
    done
    ending_of "$stem"
    [ -n "$stop" ] || [ "$status" -eq 0 ] || died "$stem" "$name"
}

end() { # STEM
    [ -e "$dir/$1.pid" ] || return 0
    name=$(name_of "$1") until=$(($(date +%s) + 120))
    if is_alive "$1"; then
        say "stopping $name"
        kill -s TERM -- "-$pid"
    fi
    while is_alive "$1"; do
        sleep 0.1
        [ "$(date +%s)" -gt $until ] || continue
        printf 'tallyd: %s does not stop, so it is killed. Answered hits are on disk\n' "$name" >&2
        kill -s KILL -- "-$pid"
        break
    done
    ending_of "$1"
    [ "$status" -eq 0 ] || printf 'tallyd: %s %s; its log is %s\n' "$name" "$how" "$dir/$1.log" >&2
}

quit() { # STATUS
    last=$1
    [ -z "${locked:-}" ] || for stem in tallyd mysql $nodes; do
        end "$stem"
    done
    exit "$last"
}

left_over() { # STEM: of a dev that was killed; the kernel sent it SIGTERM, but it may still be running
    until=$(($(date +%s) + 120)) told=
    while is_alive "$1" && tr '\0' ' ' <"/proc/$pid/cmdline" | grep -qF "$dir" && [ -z "$stop" ]; do
        [ -n "$told" ] || say "stopping the $(name_of "$1") that an earlier \`tallyd dev\` left (pid $pid)"
        [ -n "$told" ] || kill -TERM "$pid"
        told=1
        [ "$(date +%s)" -le $until ] || fail 1 "$(name_of "$1") of an earlier \`tallyd dev\` does not stop: end it with kill $pid"
        sleep 0.1
    done
    rm -f "$dir/$1.pid"
}

# What a server that has ended leaves with its clients (FIN_WAIT, TIME_WAIT, LAST_ACK, CLOSING) keeps no port.
free_port() { # sets port: the wanted one, or the next on which nothing is
    port=$1
    while case $taken in *" $port "*) ;; *) awk -v "at=$(printf ':%04X$' "$port")" '$2 ~ at && $4 !~ /^0[4569B]$/ { found = 1 }
            END { exit !found }' /proc/net/tcp /proc/net/tcp6 2>/dev/null ;; esac; do
        port=$((port + 1))
        [ $port -lt 65536 ] || fail 1 "no TCP port is free on 127.0.0.1: close some connections"
    done
    taken="$taken$port "
}

# --- the directory

dir_open() { # WANTED
    dir=$(realpath -m -- "$1")
    plain=${dir%%[!a-zA-Z0-9/._+@:,=-]*}
    [ "$plain" = "$dir" ] || fail 64 "the path of the directory has a byte (the $((${#plain} + 1))th) that mariadb-install-db" \
        "cannot take: choose a path of letters, digits and / . _ - + @ : , = with --dir"
    [ ${#dir} -le 94 ] || fail 64 "$dir is ${#dir} bytes long, but a unix socket's path may have only 107: choose a directory" \
        "of at most 94 bytes with --dir"
    why=$(mkdir -p -- "$dir" 2>&1) || unusable "$dir" "${why##*: }"
    [ -w "$dir" ] && [ -x "$dir" ] || unusable "$dir" 'Permission denied'
    [ "$(stat -c %u "$dir")" = "$(id -u)" ] ||
        fail 1 "$dir belongs to another user: choose a directory of your own with --dir"
    # Any user who may enter it can connect to MariaDB's socket as root without a password.
    mode=$(stat -c %a "$dir")
    case $mode in *00) ;; *) fail 1 "other users may enter $dir (mode 0$mode), where the database has no password: chmod 700" \
        "$dir, or choose another with --dir" ;; esac
    free=$(df -Pm "$dir" | awk 'END { print $4 }')
    [ "$free" -ge 300 ] || fail 1 "only $free MiB are free in $dir, and tallyd dev needs 300: free some, or choose another" \
        "directory with --dir"
    exec 9>>"$dir/dev.lock"
    # A dev that was killed may have left a process of a moment with the lock.
    flock -w 2 9 || fail 1 "a \`tallyd dev\` runs in $dir already (pid $(cat "$dir/dev.lock")): use it, stop it, or choose" \
        "another with --dir"
    echo $$ >"$dir/dev.lock"
}

# A Redis other than that of the previous start would have none of its hits.
same_as_before() {
    made=$(cat "$dir/cluster" 2>/dev/null) || made=0
    if [ "$made" = 0 ]; then
        [ "$masters" = 0 ] || [ ! -e "$dir/redis" ] ||
            fail 64 "$dir has one Redis: start it without --cluster, or choose another with --dir"
    elif [ "$made" != "$masters" ]; then
        fail 64 "$dir has a cluster: start it with --cluster $made, or choose another with --dir"
    fi
}

node_make() { # I: its ports remain, since the others know it by them
    conf=$dir/redis-$1/redis.conf
    if [ "$made" = 0 ]; then
        rm -rf "$dir/redis-$1"
        mkdir "$dir/redis-$1" || quit 1
        free_port $((7379 + $1))
        echo "port $port" >"$conf"
        free_port $((7479 + $1))
        cat >>"$conf" <<END
bind 127.0.0.1
cluster-enabled yes
cluster-port $port
cluster-node-timeout 3000
cluster-replica-validity-factor 0
unixsocket $dir/redis-$1.sock
unixsocketperm 700
dir $dir/redis-$1
appendonly yes
appendfsync everysec
save ""
maxmemory-policy noeviction
repl-diskless-sync-delay 0
daemonize no
set-proc-title no
END
    fi
    nodes="$nodes redis-$1"
}

port_of() { sed -n '1s/port //p' "$dir/$1/redis.conf"; }

conf_make() {
    free_port 7370
    resp=$port
    [ "$resp" = 7370 ] || say "port 7370 is taken: tallyd will listen on $resp"
    free_port 7371
    http=$port url=unix://$dir/redis.sock replicas=0
    [ "$masters" = 0 ] || replicas=1 url=redis+cluster://$(for node in $nodes; do echo "127.0.0.1:$(port_of "$node")"; done |
        head -n "$masters" | paste -sd ,)
    [ -z "$file" ] || say "using $file, except for listen, http, redis, mysql and instance: dev sets these itself"
    {
        echo "# Written by \`tallyd dev\` at each start; changes here are lost. Give it counters with -c FILE."
        awk '/^[a-z_]+:/ { own = /^(listen|http|redis|mysql|instance):/ } !own' <&3
        cat <<END
listen:
  resp: [ "tcp://127.0.0.1:$resp", "unix://$dir/tallyd.sock" ]
  control: "unix://$dir/control.sock"
  http: "tcp://127.0.0.1:$http"
instance: dev
redis: { url: "$url", replicas: $replicas }
mysql: "mysql://root@localhost/tally?socket=$dir/mysql.sock"
END
    } >"$dir/tallyd.yaml"
    exec 3<&-
}

# --- the servers

pings() { timeout 2 redis-cli -s "$dir/$1.sock" PING | grep -q PONG; }

each_node() { # COMMAND WANTED: each says it
    for node in $nodes; do
        timeout 2 redis-cli -s "$dir/$node.sock" $1 | grep -q "$2" || return 1
    done
}

redis_start() {
    need redis-server redis-server
    need redis-cli redis-tools
    if [ "$masters" = 0 ]; then
        mkdir -p "$dir/redis"
        say 'starting redis-server'
        spawn redis redis-server --port 0 --unixsocket "$dir/redis.sock" --unixsocketperm 700 --dir "$dir/redis" \
            --appendonly yes --appendfsync everysec --maxmemory-policy noeviction --save '' --daemonize no --set-proc-title no
        await redis pings redis
        return
    fi
    say "starting $((2 * masters)) redis-servers"
    for node in $nodes; do
        spawn "$node" redis-server "$dir/$node/redis.conf"
    done
    await redis-1 each_node PING PONG
    if [ -z "$stop" ] && [ "$made" = 0 ]; then
        say 'making a cluster of them, once (some seconds)'
        once cluster redis-cli redis-cli --cluster create $(for node in $nodes; do echo "127.0.0.1:$(port_of "$node")"; done) \
            --cluster-replicas 1 --cluster-yes
        [ -n "$stop" ] || echo "$masters" >"$dir/cluster"
    fi
    await redis-1 each_node 'CLUSTER INFO' cluster_state:ok
}

database_make() {
    mariadb --no-defaults -u root -S "$dir/mysql.sock" -e 'CREATE DATABASE IF NOT EXISTS tally CHARACTER SET utf8mb4'
}

# Its temporary tables are in $dir: a starting mariadbd removes those in its tmpdir, and in the usual one they may be another's.
mysql_start() {
    need mariadbd mariadb-server
    need mariadb mariadb-client
    user=
    [ "$(id -u)" != 0 ] || user=--user=root
    if [ ! -e "$dir/mysql" ]; then # made under another name: one that was interrupted is not taken for a database
        need mariadb-install-db mariadb-server
        say 'making a database, once (some seconds)'
        rm -rf "$dir/mysql.new"
        once mysql mariadb-install-db env TMPDIR="$dir" mariadb-install-db --no-defaults --datadir="$dir/mysql.new" \
            --auth-root-authentication-method=normal --skip-test-db --force $user
        [ -z "$stop" ] || return 0
        mv "$dir/mysql.new" "$dir/mysql" || quit 1
    fi
    say 'starting mariadbd'
    spawn mysql mariadbd --no-defaults --datadir="$dir/mysql" --tmpdir="$dir" --socket="$dir/mysql.sock" --skip-networking \
        --skip-log-bin --pid-file=dev.pid --innodb-buffer-pool-size=64M --performance-schema=OFF $user
    await mysql database_make
}

tallyd_start() {
    "$tallyd" migrate --tables -c "$dir/tallyd.yaml" >/dev/null || quit $?
    say 'starting tallyd'
    spawn tallyd "$tallyd" run -c "$dir/tallyd.yaml"
    await tallyd pings control
}

how_print() {
    say "
tallyd runs. Send it hits, with any Redis client (or with -s $dir/tallyd.sock):
$(printf %s "$examples" | sed "s/^    redis-cli -p @/    redis-cli -p $resp/")
The panel, for a browser on this machine:
    http://127.0.0.1:$http/"
    first="s $dir/redis.sock"
    if [ "$masters" != 0 ]; then
        first="c -p $(port_of redis-1)"
        say "Kill a master, and watch its replica take over; the books still balance:
    redis-cli -p $(port_of redis-2) CLUSTER NODES
    kill -9 \$(cat $dir/redis-1.pid)
    tallyd status -c $dir/tallyd.yaml --watch"
    fi
    say "See them in MariaDB (after $every s, or at once after CTR.SYNC ALL), and in Redis until then:
    redis-cli -s $dir/control.sock CTR.SYNC ALL
    mariadb -u root -S $dir/mysql.sock tally
    redis-cli -$first
Prove that the books balance:
    tallyd verify -c $dir/tallyd.yaml
Logs: $dir/tallyd.log, ${nodes%% *}.log, mysql.log. Ctrl-C stops all of them, nothing is lost."
}

# A node of --cluster that ended is started again after 20 s: its replica takes over before.
node_watch() { # STEM
    [ ! -e "$dir/$1.pid" ] || is_alive "$1" || {
        ending_of "$1"
        say "$(name_of "$1") (port $(port_of "$1")) $how; it is started again in 20 s"
        date +%s >"$dir/$1.ended"
    }
    if [ ! -e "$dir/$1.pid" ] && [ $(($(date +%s) - $(cat "$dir/$1.ended"))) -ge 20 ]; then
        spawn "$1" redis-server "$dir/$1/redis.conf"
    fi
}

watch() {
    while [ -z "$stop" ]; do
        for stem in tallyd mysql; do
            is_alive $stem || { ending_of $stem && died $stem "$(name_of $stem)"; }
        done
        if [ "$masters" = 0 ]; then
            is_alive redis || { ending_of redis && died redis redis-server; }
        else
            for node in $nodes; do
                node_watch "$node"
            done
        fi
        sleep 0.5
    done
}

case $masters in 0 | [3-8]) ;; *) fail 64 '--cluster takes a number from 3 to 8' ;; esac
dir_open "$2"
same_as_before
locked=1
left_over tallyd
left_over mysql
[ "$masters" = 0 ] || nodes=
for i in $(seq $((2 * masters))); do
    left_over "redis-$i"
    node_make "$i"
done
[ "$masters" != 0 ] || left_over redis
conf_make
for step in redis_start mysql_start tallyd_start how_print watch; do
    [ -n "$stop" ] || $step
done
quit 0
