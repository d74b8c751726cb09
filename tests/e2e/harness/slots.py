"""Hash slots of a cluster, and the tags of tallyd's lanes, found anew (src/series/slot.h)."""
import itertools

SLOTS = 16384
LETTERS = b"abcdefghijklmnopqrstuvwxyz0123456789"


def crc16(data):
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xffff
    return crc


def slot_of_lane(lane, lanes):
    return (2 * lane + 1) * SLOTS // (2 * lanes)


def tag_of_lane(lane, lanes):
    slot = slot_of_lane(lane, lanes)
    for length in range(1, 5):
        for text in itertools.product(LETTERS, repeat=length):
            if crc16(bytes(text)) % SLOTS == slot:
                return b"{" + bytes(text) + b"}"
    raise AssertionError(slot)
