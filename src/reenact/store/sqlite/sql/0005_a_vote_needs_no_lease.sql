-- What a person said about a call that waits while somebody holds its run: whoever holds it writes the vote into the
-- journal, and from then on this row says nothing more. It goes with the seal, and with an erasure of its call.
CREATE TABLE ballots (
    run_no INTEGER NOT NULL, trace_id TEXT NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (run_no, trace_id)
) WITHOUT ROWID;
