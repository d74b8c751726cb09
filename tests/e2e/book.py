"""Redis in Action, chapter 5.2 (listings 5.3 to 5.5), for Python 3: the other program on the same Redis, which writes, reads
and cleans time series beside tallyd. The layout and the order of the steps are the book's; precisions, samples and the
clock are given, so that a test may choose them."""
import bisect

import redis

PRECISION = [1, 5, 60, 300, 3600, 18000, 86400]
SAMPLE_COUNT = 120


def update_counter(conn, name, count, now, precisions=tuple(PRECISION)):
    pipe = conn.pipeline(transaction=True)
    for prec in precisions:
        pnow = int(now / prec) * prec
        key = f"{prec}:{name}"
        pipe.zadd("known:", {key: 0})
        pipe.hincrby(f"count:{key}", pnow, count)
    pipe.execute()


def get_counter(conn, name, precision):
    data = conn.hgetall(f"count:{precision}:{name}")
    return sorted((int(key), int(value)) for key, value in data.items())


def clean_one(conn, known, cutoff):
    """The samples of one member of `known:` up to the cutoff. True: it is empty and known no more."""
    hkey = b"count:" + known
    samples = sorted(int(sample) for sample in conn.hkeys(hkey))
    remove = bisect.bisect_right(samples, cutoff)
    if not remove:
        return False
    conn.hdel(hkey, *samples[:remove])
    if remove < len(samples):
        return False
    with conn.pipeline(transaction=True) as pipe:
        try:
            pipe.watch(hkey)
            if pipe.hlen(hkey):
                return False
            pipe.multi()
            pipe.zrem("known:", known)
            pipe.execute()
            return True
        except redis.WatchError:  # another client counted meanwhile: there is data, so it stays known
            return False


def clean_pass(conn, passes, now, samples=SAMPLE_COUNT):
    """One turn of clean_counters' outer loop, number `passes`; now() is the time in seconds."""
    index = 0
    while index < conn.zcard("known:"):
        found = conn.zrange("known:", index, index)
        index += 1
        if not found:
            break
        prec = int(found[0].partition(b":")[0])
        if passes % (prec // 60 or 1):
            continue
        if clean_one(conn, found[0], now() - samples * prec):
            index -= 1


def clean_counters(conn, quit_now, now, rest, samples=SAMPLE_COUNT):
    """Until quit_now(); rest() is what lies between two passes."""
    passes = 0
    while not quit_now():
        clean_pass(conn, passes, now, samples)
        passes += 1
        rest()
