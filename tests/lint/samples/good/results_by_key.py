"""Results that are kept under their own key, whichever comes first."""
import asyncio
from concurrent.futures import as_completed


def collect(pool, jobs):
    results = {}
    futures = {pool.submit(job): name for name, job in sorted(jobs.items())}
    for future in as_completed(futures):
        results[futures[future]] = future.result()
    return [results[name] for name in sorted(results)]


async def gathered(calls):
    done, pending = await asyncio.wait(calls)
    return await asyncio.gather(*calls), len(done), len(pending)
