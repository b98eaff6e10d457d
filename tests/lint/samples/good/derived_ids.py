"""Ids and digests that are made from what they name."""
import hashlib
import hmac
import secrets
import uuid


def step_uuid(run_id, step_id):
    return uuid.uuid5(uuid.NAMESPACE_URL, f"{run_id}/{step_id}")


def parsed(text):
    return uuid.UUID(text)


def equal(a, b):
    return secrets.compare_digest(a, b) and hmac.compare_digest(a, b)


def shard(key):
    return int(hashlib.sha256(key.encode()).hexdigest(), 16) % 16
