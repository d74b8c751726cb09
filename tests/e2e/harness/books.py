"""The oracle: every count there is, read from Redis and MySQL directly, without asking tallyd."""
import datetime
import struct
from collections import Counter

NOT_COUNTERS = (b"tally:", b"count:", b"statcache:")
CLAIMED_TAIL = 33  # '_' and 32 hex digits


def row_key(pending, field):
    """The key of a row in the ledger: lengths and bytes, so that it orders as the rows of a batch do."""
    return struct.pack(">H", len(pending)) + pending + struct.pack(">H", len(field)) + field


# Atomic: a claim that was sent before tallyd stood still, and waits in a proxy, comes before it or behind it.
HASHES = """
local found = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
    if redis.call('TYPE', key).ok == 'hash' then
        local name = string.gsub(key, '^{[a-z0-9]+}', '') -- the tag of a lane in a cluster
        found[#found + 1] = name
        found[#found + 1] = redis.call('HGETALL', key)
        local id = string.match(name, '^tally:batch:(.*)')
        local packed = id and redis.call('HGET', key, 'packed')
        local hashes = packed and cmsgpack.unpack(packed) or {}
        for i = 1, #hashes, 2 do
            found[#found + 1] = hashes[i] .. '_' .. id
            found[#found + 1] = hashes[i + 1]
        end
    end
end
return found
"""


def read_redis(redis):
    """(pending, claimed) of one moment: (key, field) -> count, and batch hex -> {(key, field): count}."""
    pending, claimed = Counter(), {}
    found = redis.eval(HASHES, 0)
    for key, fields in zip(found[::2], found[1::2]):
        if key.startswith(NOT_COUNTERS):
            continue
        tail = key[-CLAIMED_TAIL:]
        is_claimed = len(key) > CLAIMED_TAIL and tail[:1] == b"_" and not tail[1:].strip(b"0123456789abcdef")
        for field, value in zip(fields[::2], fields[1::2]):
            if is_claimed:
                claimed.setdefault(tail[1:].decode(), Counter())[key[:-CLAIMED_TAIL], field] += int(value)
            else:
                pending[key, field] += int(value)
    return pending, claimed


def field_bytes(value):
    """A column's value as the field that made it."""
    if isinstance(value, datetime.date):
        return value.strftime("%Y%m%d").encode()
    return value if isinstance(value, bytes) else str(value).encode()


def names(listed):
    """The hashes of a chunk that are not merged yet."""
    found, at = set(), 0
    while listed and at < len(listed):
        size = int.from_bytes(listed[at:at + 4], "big")
        found.add(listed[at + 4:at + 4 + size])
        at += 4 + size
    return found


def read_ledger(cursor):
    """Batch hex -> [(first_key, last_key, hashes that wait)]."""
    ledger = {}
    cursor.execute("SELECT LOWER(HEX(batch)), first_key, last_key, waiting FROM tally_ledger")
    for batch, first, last, waiting in cursor.fetchall():
        ledger.setdefault(batch, []).append((first, last, names(waiting)))
    return ledger


def read_mysql(mysql, families):
    """(merged, ledger) of one snapshot: (key, field) -> count; as read_ledger."""
    merged = Counter()
    link = mysql.connect()
    try:
        with link.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            for family in families.values():
                of = family["columns"]
                cursor.execute(f"SELECT {of['store']}, {of['field']}, {of['count']} FROM {family['table']}")
                for store, field, count in cursor.fetchall():
                    key = family["key"].replace("<store>", field_bytes(store).decode()).encode()
                    merged[key, field_bytes(field)] += count
            ledger = read_ledger(cursor)
            cursor.execute("SELECT pending_hash, field, delta FROM tally_rejects WHERE replayed_at IS NULL")
            for pending, field, delta in cursor.fetchall():
                merged[pending, field] += int(delta)
    finally:
        link.close()
    return merged, ledger


def counted(redis, mysql, families):
    """(key, field) -> count: MySQL, and pending, and what is claimed but not in the ledger. Redis is read first: what is
    merged in between is found in the ledger and not counted twice."""
    pending, claimed = read_redis(redis)
    return add_up(pending, claimed, *read_mysql(mysql, families))


def add_up(pending, claimed, total, ledger):
    total.update(pending)
    for batch, rows in claimed.items():
        merged = ledger.get(batch, [])
        for (key, field), count in rows.items():
            place = row_key(key, field)
            if not any(first <= place <= last and key not in waiting for first, last, waiting in merged):
                total[key, field] += count
    return total


def nothing_left(redis):
    """No pending, no claimed hash, no registry, nothing dirty."""
    left = [key for key in redis.scan_iter(count=1000)
            if not key.startswith((b"tally:seq:", b"tally:fence:", b"tally:wait", b"tally:instance:", b"tally:tokens",
                                  b"tally:grown:"))
            and key not in (b"tally:gen", b"tally:gens", b"tally:accepted") and redis.type(key) != b"string"]
    return not left
