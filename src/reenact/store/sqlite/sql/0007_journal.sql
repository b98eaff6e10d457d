-- "Reen". A database without it is none of ours, and is never written to.
PRAGMA application_id = 1382376814;

-- Evidence: commits, payloads, erasures, late_effects, keys. Everything else can be rebuilt from commits, and
-- `verify` compares it with what they say.
--
-- Row ids carry the place of a row, so that no index is needed to read a run in order:
--   commits.id  = run_no << 24 | n            n counts the run's commits from 1
--   payloads.id = commits.id << 12 | k        k counts the payloads that came with that commit
--   traces.id   = run_no << 24 | step_index

CREATE TABLE store (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE runs (
    run_no     INTEGER PRIMARY KEY,
    run_id     TEXT NOT NULL UNIQUE,
    kind       TEXT NOT NULL,
    mode       TEXT NOT NULL,
    parent_run TEXT,
    plan_id    TEXT NOT NULL,
    agent_id   TEXT NOT NULL,
    status     TEXT NOT NULL,
    started_at TEXT NOT NULL,
    dedupe_key BLOB NOT NULL,
    owner      TEXT,
    token      INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    cancel     TEXT
);
CREATE INDEX runs_by_status ON runs (status);

-- `digest` is the SHA-256 of the uncompressed body: it pins the last commit of a run that is not sealed yet.
CREATE TABLE commits (id INTEGER PRIMARY KEY, body BLOB NOT NULL, digest BLOB NOT NULL);

CREATE TABLE payloads (id INTEGER PRIMARY KEY, commitment BLOB NOT NULL, body BLOB NOT NULL);

-- Where equal content is found again, and where a commitment lies that was stored with an earlier commit.
CREATE TABLE contents (
    run_no INTEGER NOT NULL, content_key BLOB NOT NULL, payload_id INTEGER NOT NULL, commitment BLOB NOT NULL,
    PRIMARY KEY (run_no, content_key)
) WITHOUT ROWID;
CREATE TABLE shared_payloads (
    run_no INTEGER NOT NULL, commitment BLOB NOT NULL, payload_id INTEGER NOT NULL,
    PRIMARY KEY (run_no, commitment)
) WITHOUT ROWID;

CREATE TABLE traces (id INTEGER PRIMARY KEY, trace_id TEXT NOT NULL, step_id TEXT NOT NULL, commit_n INTEGER NOT NULL);

CREATE TABLE idempotency (
    server TEXT NOT NULL, tool TEXT NOT NULL, key TEXT NOT NULL, request_digest TEXT NOT NULL,
    agent_id TEXT NOT NULL, trace_id TEXT NOT NULL, run_no INTEGER NOT NULL, state TEXT NOT NULL,
    PRIMARY KEY (server, tool, key)
) WITHOUT ROWID;

CREATE TABLE seals (id INTEGER PRIMARY KEY, run_no INTEGER NOT NULL UNIQUE, seal_digest TEXT NOT NULL);

CREATE TABLE run_checkpoints (id INTEGER PRIMARY KEY, frontier BLOB NOT NULL);

CREATE TABLE spending (
    day TEXT NOT NULL, agent_id TEXT NOT NULL, model TEXT NOT NULL, exact TEXT NOT NULL,
    PRIMARY KEY (day, agent_id, model)
) WITHOUT ROWID;

-- What calls in flight may still cost, where an agent has a limit for a day or a model: it counts beside `spending` while
-- somebody works on the run, and goes with the end of the call. Exact picodollars, as text.
CREATE TABLE earmarks (
    run_no INTEGER NOT NULL, trace_id TEXT NOT NULL,
    day TEXT NOT NULL, agent_id TEXT NOT NULL, model TEXT NOT NULL, exact TEXT NOT NULL,
    PRIMARY KEY (run_no, trace_id)
) WITHOUT ROWID;

-- What a person said about a call that waits while somebody holds its run: whoever holds it writes the vote into the
-- journal, and from then on this row says nothing more. It goes with the seal, and with an erasure of its call.
CREATE TABLE ballots (
    run_no INTEGER NOT NULL, trace_id TEXT NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (run_no, trace_id)
) WITHOUT ROWID;

CREATE TABLE erasures (id INTEGER PRIMARY KEY, run_no INTEGER NOT NULL, body BLOB NOT NULL);

CREATE TABLE late_effects (id INTEGER PRIMARY KEY, run_no INTEGER NOT NULL, trace_id TEXT NOT NULL, body BLOB NOT NULL);
CREATE INDEX late_effects_by_trace ON late_effects (trace_id);

-- What the skill kv_store keeps: no evidence, each agent's own. A write is remembered by its idempotency key.
CREATE TABLE kv (
    agent_id TEXT NOT NULL, namespace TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (agent_id, namespace, key)
) WITHOUT ROWID;
CREATE TABLE kv_writes (
    agent_id TEXT NOT NULL, idempotency_key TEXT NOT NULL, result BLOB NOT NULL,
    PRIMARY KEY (agent_id, idempotency_key)
) WITHOUT ROWID;

CREATE TABLE keys (kid TEXT PRIMARY KEY, public_key TEXT NOT NULL) WITHOUT ROWID;

CREATE TRIGGER commits_are_not_updated BEFORE UPDATE ON commits
BEGIN SELECT RAISE(ABORT, 'commits are append-only'); END;
CREATE TRIGGER commits_are_not_deleted BEFORE DELETE ON commits
BEGIN SELECT RAISE(ABORT, 'commits are append-only'); END;
CREATE TRIGGER payloads_are_not_updated BEFORE UPDATE ON payloads
BEGIN SELECT RAISE(ABORT, 'payloads may be erased, never changed'); END;
CREATE TRIGGER erasures_are_not_updated BEFORE UPDATE ON erasures
BEGIN SELECT RAISE(ABORT, 'erasures are append-only'); END;
CREATE TRIGGER erasures_are_not_deleted BEFORE DELETE ON erasures
BEGIN SELECT RAISE(ABORT, 'erasures are append-only'); END;
CREATE TRIGGER late_effects_are_not_updated BEFORE UPDATE ON late_effects
BEGIN SELECT RAISE(ABORT, 'late effects are append-only'); END;
CREATE TRIGGER keys_are_not_updated BEFORE UPDATE ON keys
BEGIN SELECT RAISE(ABORT, 'keys are append-only'); END;
CREATE TRIGGER keys_are_not_deleted BEFORE DELETE ON keys
BEGIN SELECT RAISE(ABORT, 'keys are append-only'); END;

-- What an executor left behind holds values: they go when their run has a record of erasure, and never otherwise.
CREATE TRIGGER late_effects_are_not_deleted BEFORE DELETE ON late_effects
WHEN NOT EXISTS (
    SELECT 1 FROM erasures e JOIN runs r ON r.run_no = e.run_no
    WHERE e.run_no = OLD.run_no AND instr(e.body, CAST(r.run_id AS BLOB)) > 0
)
BEGIN SELECT RAISE(ABORT, 'late effects are append-only, and go only with an erasure'); END;

-- INSERT OR REPLACE takes a row out without asking the guards against DELETE, unless the connection says otherwise: so
-- no row of evidence is put in the place of another. A key that is there already may be said again.
CREATE TRIGGER commits_are_not_replaced BEFORE INSERT ON commits
WHEN EXISTS (SELECT 1 FROM commits WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'commits are append-only'); END;
CREATE TRIGGER payloads_are_not_replaced BEFORE INSERT ON payloads
WHEN EXISTS (SELECT 1 FROM payloads WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'payloads may be erased, never changed'); END;
CREATE TRIGGER erasures_are_not_replaced BEFORE INSERT ON erasures
WHEN EXISTS (SELECT 1 FROM erasures WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'erasures are append-only'); END;
CREATE TRIGGER late_effects_are_not_replaced BEFORE INSERT ON late_effects
WHEN EXISTS (SELECT 1 FROM late_effects WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'late effects are append-only'); END;
CREATE TRIGGER keys_are_not_replaced BEFORE INSERT ON keys
WHEN EXISTS (SELECT 1 FROM keys WHERE kid = NEW.kid AND public_key IS NOT NEW.public_key)
BEGIN SELECT RAISE(ABORT, 'keys are append-only'); END;

-- What goes with an erasure leaves its number behind, emptied: a gap is then always something else. What an executor
-- leaves twice is kept once.
CREATE TRIGGER late_effects_keep_their_numbers AFTER DELETE ON late_effects
BEGIN INSERT INTO late_effects VALUES (OLD.id, OLD.run_no, '', x''); END;

CREATE TRIGGER late_effects_are_kept_once BEFORE INSERT ON late_effects
WHEN NEW.trace_id <> '' AND EXISTS (
    SELECT 1 FROM late_effects WHERE trace_id = NEW.trace_id AND run_no = NEW.run_no AND body = NEW.body
)
BEGIN SELECT RAISE(IGNORE); END;
