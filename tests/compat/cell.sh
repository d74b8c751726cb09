#!/bin/sh
# One cell of tests/compat.sh: the suite $1 in the world that the environment describes; WORLD=dir of what it came to.
cd "$(dirname "$0")/../e2e" || exit 1
log=$WORLD/$1.log
timeout 3600 /usr/bin/python3 -m pytest -q -p no:cacheprovider -m 'not soak' "test_${1#e2e_}.py" >"$log" 2>&1
status=$?
# "4 failed, 12 passed, 1 skipped, 1 deselected, 1 warning in 30.27s"
said=$(tail -n 1 "$log" | sed 's/ in [0-9.]*s.*//; s/, [0-9]* deselected//; s/, [0-9]* warnings*//; s/ passed//')
[ $status = 0 ] || said="FAILED: ${said:-$status}"
echo "$said" >"$WORLD/$1.cell"
echo "${WORLD##*/} $1 $(tail -n 1 "$log")"
