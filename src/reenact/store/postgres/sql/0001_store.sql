-- A store is one schema of a database; `:schema` stands for its name, quoted. Nothing here depends on a search path.
--
-- Evidence: commits, payloads, erasures, late_effects, keys, notes, log_checkpoints, log_cosignatures, log_timestamps,
-- log_contradictions. Everything else can be rebuilt from commits, or is working state: docs/spec/store_postgres.md.

-- Identity: `store_id`; `schema`, the number of the last script; `oldest_client`, the oldest that may still write.
CREATE TABLE :schema.store (key text COLLATE "C" PRIMARY KEY, value text COLLATE "C" NOT NULL);

-- Apart from all else, so that who may read the evidence need not be able to read it.
CREATE TABLE :schema.key_secret (one boolean PRIMARY KEY DEFAULT true CHECK (one), secret bytea NOT NULL);

-- Numbers that have no gaps, given under the lock of their row. Whoever takes several locks takes them in the order
-- idempotency, limits, runs, erasures, late_effects, seals.
CREATE TABLE :schema.counters (name text COLLATE "C" PRIMARY KEY, value bigint NOT NULL) WITH (fillfactor = 10);
INSERT INTO :schema.counters VALUES ('erasures', 0), ('idempotency', 0), ('late_effects', 0), ('seals', 0), ('log', 0);

-- Runs are numbered in the order of their beginning, but two that begin at once; gaps mean nothing.
CREATE SEQUENCE :schema.run_numbers AS bigint;

CREATE TABLE :schema.runs (
    run_no     bigint PRIMARY KEY,
    run_id     text COLLATE "C" NOT NULL UNIQUE,
    kind       text COLLATE "C" NOT NULL,
    mode       text COLLATE "C" NOT NULL,
    parent_run text COLLATE "C",
    plan_id    text COLLATE "C" NOT NULL,
    agent_id   text COLLATE "C" NOT NULL,
    status     text COLLATE "C" NOT NULL,
    started_at text COLLATE "C" NOT NULL,
    dedupe_key bytea NOT NULL,
    owner      text COLLATE "C",
    token      bigint NOT NULL,
    expires_ms bigint NOT NULL,
    cancel     text COLLATE "C",
    session    text COLLATE "C"
) WITH (fillfactor = 70);
CREATE INDEX runs_open ON :schema.runs (run_no) WHERE status NOT IN ('completed', 'failed', 'cancelled');
CREATE INDEX runs_by_status ON :schema.runs (status, run_no);
CREATE INDEX runs_by_session ON :schema.runs (session, agent_id, run_no) WHERE session IS NOT NULL;

-- `digest` is the SHA-256 of the unpacked body, `mac` the kid (8 bytes) and the MAC (32) of the head.
CREATE TABLE :schema.commits (
    run_no bigint NOT NULL, n integer NOT NULL, body bytea NOT NULL, digest bytea NOT NULL, mac bytea NOT NULL,
    PRIMARY KEY (run_no, n)
) PARTITION BY RANGE (run_no);
ALTER TABLE :schema.commits ALTER COLUMN body SET STORAGE EXTERNAL;

-- The k-th envelope that came with commit n. It may be erased, and is never changed.
CREATE TABLE :schema.payloads (
    run_no bigint NOT NULL, n integer NOT NULL, k integer NOT NULL, commitment bytea NOT NULL, body bytea NOT NULL,
    PRIMARY KEY (run_no, n, k)
) PARTITION BY RANGE (run_no);
ALTER TABLE :schema.payloads ALTER COLUMN body SET STORAGE EXTERNAL;

CREATE TABLE :schema.traces (
    run_no bigint NOT NULL, step_index integer NOT NULL, trace_id text COLLATE "C" NOT NULL,
    step_id text COLLATE "C" NOT NULL, commit_n integer NOT NULL,
    PRIMARY KEY (run_no, step_index)
) PARTITION BY RANGE (run_no);
CREATE INDEX traces_by_id ON :schema.traces (trace_id);

-- Where equal content is found again, and where a commitment lies that was stored with an earlier commit.
CREATE TABLE :schema.contents (
    run_no bigint NOT NULL, content_key bytea NOT NULL, n integer NOT NULL, k integer NOT NULL,
    commitment bytea NOT NULL,
    PRIMARY KEY (run_no, content_key)
) PARTITION BY RANGE (run_no);
CREATE TABLE :schema.shared_payloads (
    run_no bigint NOT NULL, commitment bytea NOT NULL, n integer NOT NULL, k integer NOT NULL,
    PRIMARY KEY (run_no, commitment)
) PARTITION BY RANGE (run_no);

CREATE TABLE :schema.run_checkpoints (
    run_no bigint NOT NULL, n integer NOT NULL, frontier bytea NOT NULL, mac bytea NOT NULL,
    PRIMARY KEY (run_no, n)
) PARTITION BY RANGE (run_no);

CREATE TABLE :schema.idempotency (
    server text COLLATE "C" NOT NULL, tool text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL,
    request_digest text COLLATE "C", agent_id text COLLATE "C" NOT NULL, trace_id text COLLATE "C" NOT NULL,
    run_no bigint NOT NULL, state text COLLATE "C" NOT NULL, next text COLLATE "C" NOT NULL, mac bytea NOT NULL,
    PRIMARY KEY (server, tool, key)
);
CREATE INDEX idempotency_by_run ON :schema.idempotency (run_no);

CREATE TABLE :schema.seals (
    id bigint PRIMARY KEY, run_no bigint NOT NULL UNIQUE, seal_digest text COLLATE "C" NOT NULL
);

-- Summed over its slots: runs that spend at the same time write to different rows. Exact picodollars.
CREATE TABLE :schema.spending (
    day text COLLATE "C" NOT NULL, agent_id text COLLATE "C" NOT NULL, model text COLLATE "C" NOT NULL,
    slot integer NOT NULL, exact numeric NOT NULL CHECK (exact >= 0),
    PRIMARY KEY (day, agent_id, model, slot)
);
-- A row to lock for whoever reads what was spent on a day and then sets money apart.
CREATE TABLE :schema.limits (
    day text COLLATE "C" NOT NULL, agent_id text COLLATE "C" NOT NULL, PRIMARY KEY (day, agent_id)
);
CREATE TABLE :schema.earmarks (
    run_no bigint NOT NULL, trace_id text COLLATE "C" NOT NULL, day text COLLATE "C" NOT NULL,
    agent_id text COLLATE "C" NOT NULL, model text COLLATE "C" NOT NULL, exact numeric NOT NULL CHECK (exact >= 0),
    PRIMARY KEY (run_no, trace_id)
);
CREATE INDEX earmarks_by_day ON :schema.earmarks (day, agent_id);

CREATE TABLE :schema.ballots (
    run_no bigint NOT NULL, trace_id text COLLATE "C" NOT NULL, body bytea NOT NULL, PRIMARY KEY (run_no, trace_id)
);

CREATE TABLE :schema.erasures (id bigint PRIMARY KEY, run_no bigint NOT NULL, body bytea NOT NULL);
CREATE INDEX erasures_by_run ON :schema.erasures (run_no);

CREATE TABLE :schema.late_effects (
    id bigint PRIMARY KEY, run_no bigint NOT NULL, trace_id text COLLATE "C" NOT NULL, body bytea NOT NULL
);
CREATE INDEX late_effects_by_run ON :schema.late_effects (run_no, trace_id);

-- Values that were moved to a bundle: where they lay, and where that bundle was put.
CREATE TABLE :schema.archived (
    run_no bigint NOT NULL, n integer NOT NULL, k integer NOT NULL, commitment bytea NOT NULL,
    bundle text COLLATE "C" NOT NULL, PRIMARY KEY (run_no, n, k)
);
CREATE TABLE :schema.archives (
    run_no bigint NOT NULL, bundle text COLLATE "C" NOT NULL, place text COLLATE "C" NOT NULL,
    PRIMARY KEY (run_no, bundle)
);

CREATE TABLE :schema.kv (
    agent_id text COLLATE "C" NOT NULL, namespace text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL,
    value bytea NOT NULL, PRIMARY KEY (agent_id, namespace, key)
);
-- A write is remembered by its idempotency key; the row is written first, and locks out whoever does the same.
CREATE TABLE :schema.kv_writes (
    agent_id text COLLATE "C" NOT NULL, idempotency_key text COLLATE "C" NOT NULL, result bytea,
    PRIMARY KEY (agent_id, idempotency_key)
);

CREATE TABLE :schema.keys (kid text COLLATE "C" PRIMARY KEY, public_key text COLLATE "C" NOT NULL);

CREATE TABLE :schema.notes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, schema text COLLATE "C" NOT NULL,
    store_id text COLLATE "C" NOT NULL, digest text COLLATE "C" NOT NULL, kid text COLLATE "C" NOT NULL,
    signature bytea NOT NULL, record bytea
);
CREATE INDEX notes_by_digest ON :schema.notes (digest);
CREATE INDEX notes_with_records ON :schema.notes (schema, id) WHERE record IS NOT NULL;

-- The store as a transparency log (docs/spec/log.md): nodes are derived, checkpoints and what others said are evidence.
CREATE TABLE :schema.log_nodes (
    level integer NOT NULL, index bigint NOT NULL, hash bytea NOT NULL, PRIMARY KEY (level, index)
);
CREATE TABLE :schema.log_checkpoints (
    size bigint PRIMARY KEY, root bytea NOT NULL, kid text COLLATE "C" NOT NULL, signature bytea NOT NULL
);
CREATE TABLE :schema.log_cosignatures (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, size bigint NOT NULL, witness text COLLATE "C" NOT NULL,
    line bytea NOT NULL, UNIQUE (size, witness)
);
CREATE TABLE :schema.log_timestamps (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, size bigint NOT NULL, place text COLLATE "C" NOT NULL,
    stamp bytea NOT NULL, UNIQUE (size, place)
);
-- A note may be larger than what an index holds.
CREATE TABLE :schema.log_contradictions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, source text COLLATE "C" NOT NULL, note bytea NOT NULL
);
CREATE UNIQUE INDEX log_contradictions_once ON :schema.log_contradictions (sha256(note));
CREATE TABLE :schema.log_peers (
    name text COLLATE "C" PRIMARY KEY, kind text COLLATE "C" NOT NULL, url text COLLATE "C" NOT NULL,
    seen bigint NOT NULL, failures integer NOT NULL, next_ms bigint NOT NULL, trouble text COLLATE "C"
);
