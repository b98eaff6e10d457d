"""Whatever completes first."""
import asyncio
from concurrent.futures import as_completed


def futures(pool, jobs, emit):
    for future in as_completed([pool.submit(job) for job in jobs]):  # expect: RN208
        emit(future.result())


async def race(tasks):
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)  # expect: RN208
    return done


def unordered(pool, work, items):
    return list(pool.imap_unordered(work, items))  # expect: RN208
