-- Notes: short texts that a key of the store signed, each in the transaction of what it signs. The text is
-- `<schema>\n<store_id>\n<digest>\n`; the digest is that of the signed record, which lies in `record` where no other
-- table has it. When a record was made stands in the record.
CREATE TABLE notes (
    id INTEGER PRIMARY KEY, schema TEXT NOT NULL, store_id TEXT NOT NULL, digest TEXT NOT NULL,
    kid TEXT NOT NULL, signature BLOB NOT NULL, record BLOB
);
CREATE INDEX notes_by_digest ON notes (digest);

CREATE TRIGGER notes_are_not_updated BEFORE UPDATE ON notes
BEGIN SELECT RAISE(ABORT, 'notes are append-only'); END;
CREATE TRIGGER notes_are_not_deleted BEFORE DELETE ON notes
BEGIN SELECT RAISE(ABORT, 'notes are append-only'); END;
CREATE TRIGGER notes_are_not_replaced BEFORE INSERT ON notes
WHEN EXISTS (SELECT 1 FROM notes WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'notes are append-only'); END;
