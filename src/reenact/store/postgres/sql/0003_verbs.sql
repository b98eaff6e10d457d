-- What clients call. A function is never changed: another one gets the next number, and the old one stays as long as
-- there may be clients that call it.

-- The one clock: leases go by it, and days. Unix milliseconds. Tests replace it.
CREATE FUNCTION :schema.now_ms() RETURNS bigint LANGUAGE sql AS
    $$ SELECT (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint $$;

-- Whatever a transaction of ours is to be, for as long as it lasts: durable whatever the server's defaults are (a
-- promise stronger than `on` stays), and not waiting for a lock for longer than a lease allows.
CREATE FUNCTION :schema.begin_1() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    PERFORM set_config('lock_timeout', '3s', true);
END $$;

-- What an append asks of the large tables is planned each time, for the one partition that has the run: a plan that is
-- kept is begun in all of them, whatever it then reads, and costs more with every million runs.
CREATE FUNCTION :schema.last_commit_1(p_run_no bigint) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    v_n integer;
BEGIN
    EXECUTE 'SELECT n FROM :schema.commits WHERE run_no = $1 ORDER BY n DESC LIMIT 1' INTO v_n USING p_run_no;
    RETURN v_n;
END $$;
CREATE FUNCTION :schema.has_commit_1(p_run_no bigint, p_n integer, p_digest bytea) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_has boolean;
BEGIN
    EXECUTE 'SELECT EXISTS (SELECT 1 FROM :schema.commits WHERE run_no = $1 AND n = $2 AND digest = $3)'
    INTO v_has USING p_run_no, p_n, p_digest;
    RETURN v_has;
END $$;
CREATE FUNCTION :schema.has_payload_1(p_run_no bigint, p_n integer, p_k integer, p_commitment bytea) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_has boolean;
BEGIN
    EXECUTE 'SELECT EXISTS (SELECT 1 FROM :schema.payloads WHERE run_no = $1 AND n = $2 AND k = $3 AND commitment = $4)'
    INTO v_has USING p_run_no, p_n, p_k, p_commitment;
    RETURN v_has;
END $$;

-- Commits of several runs, one of each. A unit says what is written, and `b` holds the bytes; places in it count from 1.
-- done: written; again: it was sent before, and is there, byte by byte; fenced: another executor took over, or it is
-- not the next; exists: there is a run of this id; base: what an envelope builds on was erased; old: this client may
-- not write here. A unit that is refused writes nothing, and the others do.
--
-- Locks are taken in one order by all: runs by their number, new ids, the last seal, what was spent. A plan that is
-- kept from when there was hardly a run must not read whole tables later on: so they are looked up by index alone.
CREATE FUNCTION :schema.append_1(p_units jsonb, b bytea[])
RETURNS TABLE (outcome text, run_no bigint, cancel text, expires bigint) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_begins constant boolean := p_units @? '$.run';
    v_old boolean := false; v_drawn bigint[];
    v_outcome text[]; v_no bigint[]; v_cancel text[]; v_expires bigint[];
BEGIN
    PERFORM :schema.begin_1();
    IF p_units @? '$ ? (!exists(@.run))' THEN
        PERFORM 1 FROM :schema.runs r
        WHERE r.run_id = ANY(ARRAY(SELECT u ->> 'run_id' FROM jsonb_array_elements(p_units) u WHERE NOT u ? 'run'))
        ORDER BY r.run_no FOR NO KEY UPDATE;
    END IF;
    IF v_begins THEN
        SELECT s.value::integer > (p_units -> 0 ->> 'client')::integer INTO v_old
        FROM :schema.store s WHERE s.key = 'oldest_client';
        SELECT array_agg(
            CASE WHEN u ? 'run' THEN coalesce((u -> 'run' ->> 'run_no')::bigint, nextval(':schema.run_numbers')) END
            ORDER BY i
        ) INTO v_drawn FROM jsonb_array_elements(p_units) WITH ORDINALITY t (u, i);
        INSERT INTO :schema.runs (
            run_no, run_id, kind, mode, parent_run, plan_id, agent_id, status, started_at, dedupe_key, owner, token,
            expires_ms, session
        )
        SELECT v_drawn[i], u ->> 'run_id', x ->> 'kind', x ->> 'mode', x ->> 'parent_run', x ->> 'plan_id',
            x ->> 'agent_id', coalesce(u ->> 'status', 'running'), x ->> 'started_at',
            b[(x ->> 'dedupe_key')::integer], x ->> 'owner', 1,
            :schema.now_ms() + (x ->> 'lease_ms')::bigint, x ->> 'session'
        FROM jsonb_array_elements(p_units) WITH ORDINALITY t (u, i), LATERAL (SELECT u -> 'run' AS x) f
        WHERE x IS NOT NULL AND NOT v_old ORDER BY u ->> 'run_id' ON CONFLICT (run_id) DO NOTHING;
    END IF;
    SELECT array_agg(no), array_agg(cancel), array_agg(expires), array_agg(outcome)
    INTO v_no, v_cancel, v_expires, v_outcome FROM (
        SELECT r.run_no AS no, r.cancel AS cancel, CASE WHEN u ? 'run' THEN r.expires_ms END AS expires, CASE
            WHEN u ? 'run' AND v_old THEN 'old'
            WHEN u ? 'run' AND r.run_no = v_drawn[i] THEN 'done'
            WHEN NOT u ? 'run' AND r.token = (u ->> 'token')::bigint AND last.n = (u ->> 'n')::integer - 1 THEN
                CASE WHEN u ? 'bases' AND EXISTS (
                    SELECT 1 FROM jsonb_array_elements(u -> 'bases') x WHERE NOT :schema.has_payload_1(
                        r.run_no, (x ->> 0)::integer, (x ->> 1)::integer, b[(x ->> 2)::integer]
                    )
                ) THEN 'base' ELSE 'done' END
            WHEN u ? 'again' AND :schema.has_commit_1(
                r.run_no, (u ->> 'n')::integer, b[(u ->> 'digest')::integer]
            ) AND (NOT u ? 'run' OR (r.token = 1 AND r.owner = u -> 'run' ->> 'owner')) THEN 'again'
            WHEN u ? 'run' THEN 'exists'
            ELSE 'fenced' END AS outcome
        FROM jsonb_array_elements(p_units) WITH ORDINALITY t (u, i)
        LEFT JOIN LATERAL (SELECT * FROM :schema.runs r WHERE r.run_id = u ->> 'run_id' OFFSET 0) r ON true
        LEFT JOIN LATERAL (
            SELECT CASE WHEN NOT u ? 'run' AND r.run_no IS NOT NULL THEN :schema.last_commit_1(r.run_no) END AS n OFFSET 0
        ) last ON true
        ORDER BY i
    ) s;
    RETURN QUERY SELECT * FROM unnest(v_outcome, v_no, v_cancel, v_expires);
    IF EXISTS (SELECT 1 FROM unnest(v_outcome) x WHERE x <> 'done') THEN
        SELECT jsonb_agg(u ORDER BY i), array_agg(v_no[i] ORDER BY i) INTO p_units, v_no
        FROM jsonb_array_elements(p_units) WITH ORDINALITY t (u, i) WHERE v_outcome[i] = 'done';
        IF p_units IS NULL THEN
            RETURN;
        END IF;
    END IF;
    PERFORM :schema.write_1(p_units, b, v_no);
END $$;

-- The rows of units that nobody refuses any more, with the numbers of their runs.
CREATE FUNCTION :schema.write_1(p_units jsonb, b bytea[], p_no bigint[]) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO :schema.commits
    SELECT p_no[i], (u ->> 'n')::integer, b[(u ->> 'body')::integer], b[(u ->> 'digest')::integer],
        b[(u ->> 'mac')::integer]
    FROM jsonb_array_elements(p_units) WITH ORDINALITY t (u, i);
    IF p_units @? '$.payloads' THEN
        INSERT INTO :schema.payloads
        SELECT p_no[i], (u ->> 'n')::integer, k, b[first + 2 * k], b[first + 2 * k + 1]
        FROM jsonb_array_elements(p_units) WITH ORDINALITY t (u, i),
            LATERAL (SELECT (u -> 'payloads' ->> 0)::integer AS first) f,
            generate_series(0, (u -> 'payloads' ->> 1)::integer - 1) k;
    END IF;
    IF p_units @? '$.contents' THEN
        INSERT INTO :schema.contents
        SELECT p_no[i], b[(x ->> 0)::integer], (u ->> 'n')::integer, (x ->> 1)::integer, b[(x ->> 2)::integer]
        FROM jsonb_array_elements(p_units) WITH ORDINALITY t (u, i), jsonb_array_elements(u -> 'contents') x
        ON CONFLICT DO NOTHING;
    END IF;
    IF p_units @? '$.traces' THEN
        INSERT INTO :schema.traces SELECT p_no[i], (x ->> 0)::integer, x ->> 1, x ->> 2, (u ->> 'n')::integer
        FROM jsonb_array_elements(p_units) WITH ORDINALITY t (u, i), jsonb_array_elements(u -> 'traces') x;
    END IF;
    IF p_units @? '$.frontier' THEN
        INSERT INTO :schema.run_checkpoints
        SELECT p_no[i], (u ->> 'n')::integer, b[(x ->> 0)::integer], b[(x ->> 1)::integer]
        FROM jsonb_array_elements(p_units) WITH ORDINALITY t (u, i), LATERAL (SELECT u -> 'frontier' AS x) f
        WHERE x IS NOT NULL;
    END IF;
    IF p_units @? '$.notes' THEN
        INSERT INTO :schema.notes (schema, store_id, digest, kid, signature)
        SELECT x ->> 0, x ->> 1, x ->> 2, x ->> 3, b[(x ->> 4)::integer]
        FROM jsonb_array_elements(p_units) WITH ORDINALITY t (u, i),
            jsonb_array_elements(u -> 'notes') WITH ORDINALITY s (x, j) ORDER BY i, j;
    END IF;
    IF p_units @? '$.shared' THEN
        INSERT INTO :schema.shared_payloads SELECT p.run_no, p.commitment, p.n, p.k
        FROM jsonb_array_elements(p_units) WITH ORDINALITY t (u, i), jsonb_array_elements(u -> 'shared') x,
            LATERAL (
                SELECT * FROM :schema.payloads p
                WHERE p.run_no = p_no[i] AND p.n = (x ->> 1)::integer AND p.commitment = b[(x ->> 0)::integer] OFFSET 0
            ) p
        ON CONFLICT DO NOTHING;
    END IF;
    IF p_units @? '$.status ? (@ != null)' THEN
        UPDATE :schema.runs r SET status = u ->> 'status'
        FROM jsonb_array_elements(p_units) WITH ORDINALITY t (u, i)
        WHERE r.run_no = p_no[i] AND NOT u ? 'run' AND u ->> 'status' IS NOT NULL;
    END IF;
    IF p_units @? '$.ended' THEN
        DELETE FROM :schema.earmarks e
        USING jsonb_array_elements(p_units) WITH ORDINALITY t (u, i), jsonb_array_elements_text(u -> 'ended') x
        WHERE e.run_no = p_no[i] AND e.trace_id = x;
    END IF;
    IF p_units @? '$.seal' THEN
        INSERT INTO :schema.seals SELECT (x ->> 0)::bigint, p_no[i], x ->> 1
        FROM jsonb_array_elements(p_units) WITH ORDINALITY t (u, i), LATERAL (SELECT u -> 'seal' AS x) f
        WHERE x IS NOT NULL;
        UPDATE :schema.counters c SET value = (SELECT max((x ->> 0)::bigint) FROM jsonb_path_query(p_units, '$.seal') x)
        WHERE c.name = 'seals';
        -- Nobody votes on a run that has ended, and nothing is set apart for it.
        DELETE FROM :schema.ballots v USING jsonb_array_elements(p_units) WITH ORDINALITY t (u, i)
        WHERE v.run_no = p_no[i] AND u ? 'seal';
        DELETE FROM :schema.earmarks e USING jsonb_array_elements(p_units) WITH ORDINALITY t (u, i)
        WHERE e.run_no = p_no[i] AND u ? 'seal';
    END IF;
    IF p_units @? '$.spent' THEN
        INSERT INTO :schema.spending AS s
        SELECT x ->> 0, x ->> 1, x ->> 2, (p_no[i] % 16)::integer, sum((x ->> 3)::numeric)
        FROM jsonb_array_elements(p_units) WITH ORDINALITY t (u, i), jsonb_array_elements(u -> 'spent') x
        GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
        ON CONFLICT (day, agent_id, model, slot) DO UPDATE SET exact = s.exact + excluded.exact;
    END IF;
END $$;

-- Heartbeats need not outlive a crash of the server. A run whose row is locked just now is being written to by whoever
-- holds it, or about to be taken: it is told as `busy`, and neither renewed nor lost.
CREATE FUNCTION :schema.renew_1(p_runs text[], p_tokens bigint[], p_owners text[], p_lease_ms bigint)
RETURNS TABLE (i integer, busy boolean, expires_ms bigint, cancel text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM set_config('lock_timeout', '2s', true);
    RETURN QUERY
    WITH held AS (
        SELECT t.i::integer AS i, t.run_id, t.token, t.owner
        FROM unnest(p_runs, p_tokens, p_owners) WITH ORDINALITY AS t (run_id, token, owner, i)
    ), locked AS (
        SELECT r.run_no, h.i FROM :schema.runs r JOIN held h
        ON h.run_id = r.run_id AND h.token = r.token AND h.owner = r.owner FOR NO KEY UPDATE OF r SKIP LOCKED
    ), renewed AS (
        UPDATE :schema.runs r SET expires_ms = greatest(:schema.now_ms() + p_lease_ms, r.expires_ms + 1)
        FROM locked l WHERE l.run_no = r.run_no RETURNING l.i, r.expires_ms, r.cancel
    )
    SELECT h.i, n.i IS NULL, n.expires_ms, n.cancel FROM held h
    JOIN :schema.runs r ON h.run_id = r.run_id AND h.token = r.token AND h.owner = r.owner
    LEFT JOIN renewed n ON n.i = h.i;
END $$;

-- What an executor leaves for the next one, kept once.
CREATE FUNCTION :schema.add_late_effect_1(p_run_no bigint, p_trace_id text, p_body bytea) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_id bigint;
BEGIN
    PERFORM :schema.begin_1();
    SELECT c.value INTO v_id FROM :schema.counters c WHERE c.name = 'late_effects' FOR UPDATE;
    IF NOT EXISTS (
        SELECT 1 FROM :schema.late_effects l
        WHERE l.run_no = p_run_no AND l.trace_id = p_trace_id AND l.body = p_body
    ) THEN
        INSERT INTO :schema.late_effects VALUES (v_id + 1, p_run_no, p_trace_id, p_body);
        UPDATE :schema.counters c SET value = v_id + 1 WHERE c.name = 'late_effects';
    END IF;
END $$;

-- The number and digest of the store's last seal, held until the transaction ends; and how many erasures there are.
CREATE FUNCTION :schema.begin_seal_1(OUT number bigint, OUT last text, OUT erasures bigint) LANGUAGE plpgsql AS $$
BEGIN
    SELECT c.value INTO number FROM :schema.counters c WHERE c.name = 'seals' FOR UPDATE;
    SELECT s.seal_digest INTO last FROM :schema.seals s WHERE s.id = number;
    SELECT c.value INTO erasures FROM :schema.counters c WHERE c.name = 'erasures';
END $$;
