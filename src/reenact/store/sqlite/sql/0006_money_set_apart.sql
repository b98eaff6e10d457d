-- What calls in flight may still cost, where an agent has a limit for a day or a model: it counts beside `spending` while
-- somebody works on the run, and goes with the end of the call. Exact picodollars, as text.
CREATE TABLE earmarks (
    run_no INTEGER NOT NULL, trace_id TEXT NOT NULL,
    day TEXT NOT NULL, agent_id TEXT NOT NULL, model TEXT NOT NULL, exact TEXT NOT NULL,
    PRIMARY KEY (run_no, trace_id)
) WITHOUT ROWID;
