-- What idempotency keys are made with: 32 random bytes, made with the store id, or when a store of schema 7 is opened for
-- writing. A table of its own, so that who may read the evidence need not be able to read it.
CREATE TABLE key_secret (id INTEGER PRIMARY KEY CHECK (id = 1), secret BLOB NOT NULL);

CREATE TRIGGER key_secret_is_not_updated BEFORE UPDATE ON key_secret
BEGIN SELECT RAISE(ABORT, 'the key secret is never changed'); END;
CREATE TRIGGER key_secret_is_not_deleted BEFORE DELETE ON key_secret
BEGIN SELECT RAISE(ABORT, 'the key secret is never changed'); END;
CREATE TRIGGER key_secret_is_not_replaced BEFORE INSERT ON key_secret
WHEN EXISTS (SELECT 1 FROM key_secret)
BEGIN SELECT RAISE(ABORT, 'the key secret is never changed'); END;

-- The digest of a keyed request goes with the erasure of its call.
ALTER TABLE idempotency RENAME TO idempotency_7;
CREATE TABLE idempotency (
    server TEXT NOT NULL, tool TEXT NOT NULL, key TEXT NOT NULL, request_digest TEXT,
    agent_id TEXT NOT NULL, trace_id TEXT NOT NULL, run_no INTEGER NOT NULL, state TEXT NOT NULL,
    PRIMARY KEY (server, tool, key)
) WITHOUT ROWID;
INSERT INTO idempotency SELECT server, tool, key, request_digest, agent_id, trace_id, run_no, state FROM idempotency_7;
DROP TABLE idempotency_7;
