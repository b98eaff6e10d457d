"""What a step leaves on the disk, and how many runs end in a second through the one chain of seals."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from tests.postgres.server import Server
from tests.store.units import Run

from benchmarks.figure import Figure, seconds
from benchmarks.plan import check
from benchmarks.plans import SKILLS, plan
from reenact import Runtime
from reenact.store.base import Appended, Lease
from reenact.store.postgres.store import PostgresStore

STEPS = 1000
SEALS, TOGETHER = 300, 10


def measure(server: Server) -> Iterator[Figure]:
    server.add_database("room")
    url = server.url(database="room")
    with closing(Runtime(url, skills=SKILLS)) as runtime:
        check(runtime.run(plan(STEPS)).ok)
        before = bytes_there(server)
        check(runtime.run(plan(2 * STEPS)).ok)
        one = bytes_there(server) - before
        yield Figure(name="bytes a step on the disk, with indexes", value=one / (2 * STEPS), unit="B")
        for _ in range(100):
            check(runtime.run(plan(1)).ok)
        before = bytes_there(server)
        for _ in range(400):
            check(runtime.run(plan(1)).ok)
        value = (bytes_there(server) - before) / 400
        yield Figure(name="bytes of a run of one step, with its seal", value=value, unit="B")
    with closing(PostgresStore(url)) as store:
        for count in (1, TOGETHER):
            runs = [begun(store, f"seal-{count}-{number}") for number in range(SEALS)]
            took = seconds(lambda runs=runs, count=count: seal(store, runs, count))  # type: ignore[misc]
            says = "one at a time" if count == 1 else f"{count} at a time"
            yield Figure(name=f"runs sealed in a second, {says}", value=SEALS / took, unit="/s")


SIZE = (
    "SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = 'reenact' AND c.relkind = 'r'"
)


def bytes_there(server: Server) -> int:
    ((found,),) = server.execute(SIZE, database="room")
    return int(found)


def begun(store: PostgresStore, run_id: str) -> tuple[Run, Lease]:
    run = Run(run_id)
    unit, taken = run.unit()
    done = store.append(unit, None, owner="benchmark")
    taken(done)
    return run, done.lease


def seal(store: PostgresStore, runs: list[tuple[Run, Lease]], together: int) -> None:
    for first in range(0, len(runs), together):
        units = [
            (run.unit(sealed=True, status="completed")[0], lease, "") for run, lease in runs[first : first + together]
        ]
        check(all(isinstance(done, Appended) for done in store.append_many(units)))
