-- The store as a transparency log: its seals, in order, are the leaves of one RFC 6962 tree (docs/spec/log.md).
--
-- Derived: the hash of every complete subtree, id = level << 48 | index. It can be rebuilt from the commits.
CREATE TABLE log_nodes (id INTEGER PRIMARY KEY, hash BLOB NOT NULL);

-- Evidence: every head that was signed, one for a size; what witnesses said of it, as a line of a signed note; and heads
-- that somebody else holds and that contradict this log.
CREATE TABLE log_checkpoints (size INTEGER PRIMARY KEY, root BLOB NOT NULL, kid TEXT NOT NULL, signature BLOB NOT NULL);
CREATE TABLE log_cosignatures (
    id INTEGER PRIMARY KEY, size INTEGER NOT NULL, witness TEXT NOT NULL, line BLOB NOT NULL,
    UNIQUE (size, witness)
);
CREATE TABLE log_timestamps (
    id INTEGER PRIMARY KEY, size INTEGER NOT NULL, place TEXT NOT NULL, stamp BLOB NOT NULL, UNIQUE (size, place)
);
CREATE TABLE log_contradictions (
    id INTEGER PRIMARY KEY, source TEXT NOT NULL, note BLOB NOT NULL UNIQUE
);

-- Who is asked, and how it went: no evidence. `name` is a witness's verifier key, or where an anchor lies.
CREATE TABLE log_peers (
    name TEXT PRIMARY KEY, kind TEXT NOT NULL, url TEXT NOT NULL, seen INTEGER NOT NULL, failures INTEGER NOT NULL,
    next_ms INTEGER NOT NULL, trouble TEXT
) WITHOUT ROWID;

CREATE TRIGGER log_checkpoints_are_not_updated BEFORE UPDATE ON log_checkpoints
BEGIN SELECT RAISE(ABORT, 'checkpoints are append-only'); END;
CREATE TRIGGER log_checkpoints_are_not_deleted BEFORE DELETE ON log_checkpoints
BEGIN SELECT RAISE(ABORT, 'checkpoints are append-only'); END;
CREATE TRIGGER log_checkpoints_are_not_replaced BEFORE INSERT ON log_checkpoints
WHEN EXISTS (SELECT 1 FROM log_checkpoints WHERE size >= NEW.size)
BEGIN SELECT RAISE(ABORT, 'checkpoints are append-only'); END;
CREATE TRIGGER log_cosignatures_are_not_updated BEFORE UPDATE ON log_cosignatures
BEGIN SELECT RAISE(ABORT, 'cosignatures are append-only'); END;
CREATE TRIGGER log_cosignatures_are_not_deleted BEFORE DELETE ON log_cosignatures
BEGIN SELECT RAISE(ABORT, 'cosignatures are append-only'); END;
CREATE TRIGGER log_cosignatures_are_not_replaced BEFORE INSERT ON log_cosignatures
WHEN EXISTS (SELECT 1 FROM log_cosignatures WHERE id = NEW.id OR (size = NEW.size AND witness = NEW.witness))
BEGIN SELECT RAISE(ABORT, 'cosignatures are append-only'); END;
CREATE TRIGGER log_timestamps_are_not_updated BEFORE UPDATE ON log_timestamps
BEGIN SELECT RAISE(ABORT, 'timestamps are append-only'); END;
CREATE TRIGGER log_timestamps_are_not_deleted BEFORE DELETE ON log_timestamps
BEGIN SELECT RAISE(ABORT, 'timestamps are append-only'); END;
CREATE TRIGGER log_timestamps_are_not_replaced BEFORE INSERT ON log_timestamps
WHEN EXISTS (SELECT 1 FROM log_timestamps WHERE id = NEW.id OR (size = NEW.size AND place = NEW.place))
BEGIN SELECT RAISE(ABORT, 'timestamps are append-only'); END;
CREATE TRIGGER log_contradictions_are_not_updated BEFORE UPDATE ON log_contradictions
BEGIN SELECT RAISE(ABORT, 'contradictions are append-only'); END;
CREATE TRIGGER log_contradictions_are_not_deleted BEFORE DELETE ON log_contradictions
BEGIN SELECT RAISE(ABORT, 'contradictions are append-only'); END;
CREATE TRIGGER log_contradictions_are_not_replaced BEFORE INSERT ON log_contradictions
WHEN EXISTS (SELECT 1 FROM log_contradictions WHERE id = NEW.id OR note = NEW.note)
BEGIN SELECT RAISE(ABORT, 'contradictions are append-only'); END;
