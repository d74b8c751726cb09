"""Hash slots of a cluster, and the tags of tallyd's lanes, found anew (src/series/slot.h)."""
import binascii
import functools
import itertools

SLOTS = 16384
LETTERS = b"abcdefghijklmnopqrstuvwxyz0123456789"


def crc16(data):
    return binascii.crc_hqx(data, 0)


def slot_of_lane(lane, lanes):
    return (2 * lane + 1) * SLOTS // (2 * lanes)


@functools.cache
def tag_of_lane(lane, lanes):
    slot = slot_of_lane(lane, lanes)
    for length in range(1, 5):
        for text in itertools.product(LETTERS, repeat=length):
            if crc16(bytes(text)) % SLOTS == slot:
                return b"{" + bytes(text) + b"}"
    raise AssertionError(slot)
