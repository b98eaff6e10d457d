-- What an executor left behind holds values: they go when their run has a record of erasure, and never otherwise.
DROP TRIGGER late_effects_are_not_deleted;
CREATE TRIGGER late_effects_are_not_deleted BEFORE DELETE ON late_effects
WHEN NOT EXISTS (
    SELECT 1 FROM erasures e JOIN runs r ON r.run_no = e.run_no
    WHERE e.run_no = OLD.run_no AND instr(e.body, CAST(r.run_id AS BLOB)) > 0
)
BEGIN SELECT RAISE(ABORT, 'late effects are append-only, and go only with an erasure'); END;
