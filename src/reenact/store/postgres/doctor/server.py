"""What a doctor says of the server that a store lies on: what is durable there, what runs out, what this role may."""

from __future__ import annotations

from collections.abc import Iterator

from reenact.store.doctor.findings import Finding, counted
from reenact.store.postgres.opened.database import Asks
from reenact.values.clock import SystemClock, say_ts

SETTINGS = (
    "SELECT current_setting('server_version_num')::integer, current_setting('fsync'), "
    "current_setting('full_page_writes'), current_setting('synchronous_standby_names'), pg_is_in_recovery(), "
    "current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer, "
    "(SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type = 'client backend')::integer, "
    "(SELECT extract(epoch FROM max(clock_timestamp() - xact_start))::integer FROM pg_catalog.pg_stat_activity "
    "WHERE pid <> pg_backend_pid()), :schema.now_ms(), (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
)
MISSING = (
    "SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = %s AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname <> 'key_secret' "
    "AND NOT has_table_privilege(c.oid, 'SELECT') ORDER BY 1"
)
OLDEST = 150000
FEW = 5
OLD_S = 600
APART_MS = 5_000


def look_at_server(db: Asks, schema: str) -> Iterator[Finding]:
    (row,) = db.ask(SETTINGS)
    version, fsync, pages, standbys, is_replica, most, used, oldest, told, clock = row
    if version < OLDEST:
        yield Finding("server", "trouble", f"PostgreSQL {version // 10000}", "15 or later is needed")
    elif is_replica:
        yield Finding("server", "note", "a replica: it can be read here, and written on its primary alone")
    else:
        yield Finding("server", "ok", f"PostgreSQL {version // 10000}")
    yield durability(fsync, pages, standbys)
    yield clocks(told, clock)
    yield connections(most, used)
    if oldest is not None and oldest > OLD_S:
        says = f"a transaction has been open for {oldest} s: what was erased stays in the tables until it ends"
        yield Finding("transactions", "warning", says, "end it: SELECT * FROM pg_stat_activity ORDER BY xact_start")
    missing = [name for (name,) in db.ask(MISSING, (schema,))]
    if missing:
        yield Finding("rights", "warning", f"this role may not read {', '.join(missing)}")


def durability(fsync: str, pages: str, standbys: str) -> Finding:
    """What a crash may take. What is acknowledged is otherwise durable whatever the server's defaults are."""
    off = [name for name, value in (("fsync", fsync), ("full_page_writes", pages)) if value != "on"]
    if off:
        says = f"{' and '.join(off)} off: a crash of the server's machine may take commits that were acknowledged"
        return Finding("durability", "trouble", says, "set them to on")
    if not standbys.strip():
        says = "no standby has to confirm a commit: what the disk of this one server loses is lost"
        return Finding("durability", "ok", says)
    return Finding("durability", "ok", f"a commit is confirmed by {standbys}")


def clocks(told: int, clock: int) -> Finding:
    here = SystemClock().now_ms()
    if abs(told - clock) > APART_MS:
        return Finding("server clock", "trouble", "now_ms() does not tell the server's time", "restore a backup")
    if abs(here - clock) > APART_MS:
        says = f"the server says {say_ts(clock)}, this machine {say_ts(here)}; leases go by the server's"
        return Finding("server clock", "warning", says, "set the one that is wrong: times on record are this machine's")
    return Finding("server clock", "ok", f"it is {say_ts(clock)} there")


def connections(most: int, used: int) -> Finding:
    free = most - used
    if free < FEW:
        do = "raise max_connections, or put a pooler before the server; a process of reenact takes at most four"
        return Finding("connections", "warning", f"{counted(free, 'connection')} left of {most}", do)
    return Finding("connections", "ok", f"{free} of {most} are free")
