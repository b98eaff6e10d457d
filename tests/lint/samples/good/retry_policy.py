"""The retry decision and the back-off, as they should be."""
import hashlib


def should_retry(error_code: str, attempt: int, policy) -> bool:
    if attempt >= policy.max_retries:
        return False
    if error_code not in policy.retryable_codes:
        return False
    return True


def calculate_backoff_ms(attempt, policy, run_id):
    base = policy.backoff_base_ms * (policy.backoff_multiplier**attempt)
    if policy.jitter_enabled:
        seed = int.from_bytes(hashlib.sha256(f"{run_id}:{attempt}".encode()).digest()[:8], "big")
        return min(int(base + seed % policy.jitter_max_ms), policy.max_backoff_ms)
    return int(base)
