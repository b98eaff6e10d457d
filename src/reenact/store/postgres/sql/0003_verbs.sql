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

-- One commit of one run. `u` says what, `b` holds the bytes; places in `b` count from 1.
-- done: written; again: it was sent before, and is there, byte by byte; fenced: another executor took over, or it is not the next;
-- exists: there is a run of this id; base: what an envelope builds on was erased; old: this client may not write here.
CREATE FUNCTION :schema.append_unit_1(u jsonb, b bytea[], OUT outcome text, OUT run_no bigint, OUT cancel text, OUT expires bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_no bigint; v_token bigint; v_cancel text; v_last integer;
    v_n constant integer := (u ->> 'n')::integer;
    v_digest constant bytea := b[(u ->> 'digest')::integer];
    v_run constant jsonb := u -> 'run';
    v_first integer;
BEGIN
    IF v_run IS NOT NULL THEN
        IF (SELECT s.value::integer FROM :schema.store s WHERE s.key = 'oldest_client') > (u ->> 'client')::integer THEN
            outcome := 'old';
            RETURN;
        END IF;
        INSERT INTO :schema.runs AS r (
            run_no, run_id, kind, mode, parent_run, plan_id, agent_id, status, started_at, dedupe_key, owner, token,
            expires_ms, session
        ) VALUES (
            coalesce((v_run ->> 'run_no')::bigint, nextval(':schema.run_numbers')), u ->> 'run_id', v_run ->> 'kind',
            v_run ->> 'mode', v_run ->> 'parent_run', v_run ->> 'plan_id', v_run ->> 'agent_id',
            coalesce(u ->> 'status', 'running'), v_run ->> 'started_at', b[(v_run ->> 'dedupe_key')::integer],
            v_run ->> 'owner', 1, :schema.now_ms() + (v_run ->> 'lease_ms')::bigint, v_run ->> 'session'
        ) ON CONFLICT (run_id) DO NOTHING RETURNING r.run_no, r.expires_ms INTO v_no, expires;
        IF v_no IS NULL THEN
            SELECT r.run_no, r.expires_ms INTO v_no, expires FROM :schema.runs r
            JOIN :schema.commits c ON c.run_no = r.run_no AND c.n = 1 AND c.digest = v_digest
            WHERE u ? 'again' AND r.run_id = u ->> 'run_id' AND r.token = 1 AND r.owner = v_run ->> 'owner';
            outcome := CASE WHEN v_no IS NULL THEN 'exists' ELSE 'again' END;
            run_no := v_no;
            RETURN;
        END IF;
    ELSE
        SELECT r.run_no, r.token, r.cancel INTO v_no, v_token, v_cancel FROM :schema.runs r
        WHERE r.run_id = u ->> 'run_id' FOR NO KEY UPDATE;
        SELECT c.n INTO v_last FROM :schema.commits c WHERE c.run_no = v_no ORDER BY c.n DESC LIMIT 1;
        run_no := v_no;
        cancel := v_cancel;
        IF v_token IS DISTINCT FROM (u ->> 'token')::bigint OR v_last IS DISTINCT FROM v_n - 1 THEN
            outcome := CASE WHEN u ? 'again' AND EXISTS (
                SELECT 1 FROM :schema.commits c WHERE c.run_no = v_no AND c.n = v_n AND c.digest = v_digest
            ) THEN 'again' ELSE 'fenced' END;
            RETURN;
        END IF;
        IF u ? 'bases' AND EXISTS (
            SELECT 1 FROM jsonb_array_elements(u -> 'bases') x WHERE NOT EXISTS (
                SELECT 1 FROM :schema.payloads p WHERE p.run_no = v_no AND p.n = (x ->> 0)::integer
                AND p.k = (x ->> 1)::integer AND p.commitment = b[(x ->> 2)::integer]
            )
        ) THEN
            outcome := 'base';
            RETURN;
        END IF;
        IF u ->> 'status' IS NOT NULL THEN
            UPDATE :schema.runs r SET status = u ->> 'status' WHERE r.run_no = v_no;
        END IF;
    END IF;
    INSERT INTO :schema.commits VALUES (
        v_no, v_n, b[(u ->> 'body')::integer], v_digest, b[(u ->> 'mac')::integer]
    );
    IF u ? 'payloads' THEN
        v_first := (u -> 'payloads' ->> 0)::integer;
        INSERT INTO :schema.payloads
        SELECT v_no, v_n, k, b[v_first + 2 * k], b[v_first + 2 * k + 1]
        FROM generate_series(0, (u -> 'payloads' ->> 1)::integer - 1) k;
    END IF;
    IF u ? 'contents' THEN
        INSERT INTO :schema.contents
        SELECT v_no, b[(x ->> 0)::integer], v_n, (x ->> 1)::integer, b[(x ->> 2)::integer]
        FROM jsonb_array_elements(u -> 'contents') x ON CONFLICT DO NOTHING;
    END IF;
    IF u ? 'traces' THEN
        INSERT INTO :schema.traces SELECT v_no, (x ->> 0)::integer, x ->> 1, x ->> 2, v_n
        FROM jsonb_array_elements(u -> 'traces') x;
    END IF;
    IF u ? 'frontier' THEN
        INSERT INTO :schema.run_checkpoints VALUES (
            v_no, v_n, b[(u -> 'frontier' ->> 0)::integer], b[(u -> 'frontier' ->> 1)::integer]
        );
    END IF;
    IF u ? 'notes' THEN
        INSERT INTO :schema.notes (schema, store_id, digest, kid, signature)
        SELECT x ->> 0, x ->> 1, x ->> 2, x ->> 3, b[(x ->> 4)::integer] FROM jsonb_array_elements(u -> 'notes') x;
    END IF;
    IF u ? 'shared' THEN
        INSERT INTO :schema.shared_payloads SELECT v_no, p.commitment, p.n, p.k
        FROM jsonb_array_elements(u -> 'shared') x JOIN :schema.payloads p
        ON p.run_no = v_no AND p.n = (x ->> 1)::integer AND p.commitment = b[(x ->> 0)::integer]
        ON CONFLICT DO NOTHING;
    END IF;
    IF u ? 'ended' THEN
        DELETE FROM :schema.earmarks e WHERE e.run_no = v_no AND u -> 'ended' ? e.trace_id;
    END IF;
    IF u ? 'spent' THEN
        INSERT INTO :schema.spending AS s
        SELECT x ->> 0, x ->> 1, x ->> 2, (v_no % 16)::integer, sum((x ->> 3)::numeric)
        FROM jsonb_array_elements(u -> 'spent') x GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
        ON CONFLICT (day, agent_id, model, slot) DO UPDATE SET exact = s.exact + excluded.exact;
    END IF;
    outcome := 'done';
    run_no := v_no;
    cancel := v_cancel;
END $$;

-- Several commits, in their order, each refused alone.
CREATE FUNCTION :schema.append_1(p_units jsonb, b bytea[]) RETURNS TABLE (outcome text, run_no bigint, cancel text, expires bigint)
LANGUAGE plpgsql AS $$
DECLARE
    v_unit jsonb;
BEGIN
    PERFORM :schema.begin_1();
    IF jsonb_array_length(p_units) > 1 THEN
        PERFORM 1 FROM :schema.runs r
        WHERE r.run_id IN (SELECT x ->> 'run_id' FROM jsonb_array_elements(p_units) x)
        ORDER BY r.run_no FOR NO KEY UPDATE;
    END IF;
    FOR v_unit IN SELECT x FROM jsonb_array_elements(p_units) WITH ORDINALITY AS t (x, i) ORDER BY t.i LOOP
        RETURN QUERY SELECT * FROM :schema.append_unit_1(v_unit, b);
    END LOOP;
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

-- A run has ended: nobody votes on it any more, and nothing is set apart for it.
CREATE FUNCTION :schema.seal_1(p_number bigint, p_run_no bigint, p_digest text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO :schema.seals VALUES (p_number, p_run_no, p_digest);
    UPDATE :schema.counters c SET value = p_number WHERE c.name = 'seals';
    DELETE FROM :schema.ballots b WHERE b.run_no = p_run_no;
    DELETE FROM :schema.earmarks e WHERE e.run_no = p_run_no;
END $$;
