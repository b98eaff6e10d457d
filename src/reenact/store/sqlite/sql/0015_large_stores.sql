-- What a large store is asked without reading all its runs.
CREATE INDEX runs_by_parent ON runs (parent_run) WHERE parent_run IS NOT NULL;

-- Working state: what the runs up to a seal add up to, so that each is counted once; without a row they are counted anew.
CREATE TABLE tallies (name TEXT PRIMARY KEY, sealed INTEGER NOT NULL, sums BLOB NOT NULL) WITHOUT ROWID;
