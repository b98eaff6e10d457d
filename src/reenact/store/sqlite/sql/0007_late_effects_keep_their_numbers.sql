-- What goes with an erasure leaves its number behind, emptied: a gap is then always something else. What an executor
-- leaves twice is kept once.
WITH RECURSIVE ids (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM ids WHERE id < (SELECT max(id) FROM late_effects))
INSERT INTO late_effects
SELECT id, 0, '', x'' FROM ids WHERE id <= (SELECT max(id) FROM late_effects) AND id NOT IN (SELECT id FROM late_effects);

CREATE TRIGGER late_effects_keep_their_numbers AFTER DELETE ON late_effects
BEGIN INSERT INTO late_effects VALUES (OLD.id, OLD.run_no, '', x''); END;

CREATE TRIGGER late_effects_are_kept_once BEFORE INSERT ON late_effects
WHEN NEW.trace_id <> '' AND EXISTS (
    SELECT 1 FROM late_effects WHERE trace_id = NEW.trace_id AND run_no = NEW.run_no AND body = NEW.body
)
BEGIN SELECT RAISE(IGNORE); END;
