-- additive: what a large store is asked without reading all its runs.
CREATE INDEX runs_by_parent ON :schema.runs (parent_run, run_no) WHERE parent_run IS NOT NULL;

-- Working state: what the runs up to a seal add up to, so that each is counted once; without a row they are counted anew.
CREATE TABLE :schema.tallies (
    name text COLLATE "C" PRIMARY KEY, sealed bigint NOT NULL, sums bytea NOT NULL
);
