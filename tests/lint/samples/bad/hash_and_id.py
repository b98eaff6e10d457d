"""Salted hashes and addresses."""


def shard(key):
    return hash(key) % 16  # expect: RN204


def keys(values):
    return list(map(hash, values))  # expect: RN204


def jitter(run_id, attempt):
    seed = hash(f"{run_id}:{attempt}")  # expect: RN204
    return seed % 100


def ordered(values):
    return sorted(values, key=id)  # expect: RN205
