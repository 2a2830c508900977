"""Splits and orders by hashes of names: every machine and every later release puts a name where it was."""
import hashlib

SPLITS = ("train", "val", "test")
VAL_PERCENT = TEST_PERCENT = 5


def hash_of(text):
    """As bytes; lines in this order of their ids make any prefix of a file a fair sample of it."""
    return hashlib.sha256(text.encode()).digest()


def bucket(text, buckets):
    return int.from_bytes(hash_of(text)[:8], "big") % buckets


def split_of(family):
    """The split of all that has this family: what is too much alike to be in two of them."""
    place = bucket(family, 100)
    return "test" if place < TEST_PERCENT else "val" if place < TEST_PERCENT + VAL_PERCENT else "train"
