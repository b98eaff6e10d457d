"""Reading what was recorded: runs, outcomes, values and bundles. Nothing here needs the engine that wrote them.

In comes a store or an exported folder; out come steps and outcomes (`reader`, `outcomes`), a run's result (`result`)
or state (`state`, `trace`), a verified recording for replays (`recording`, `bundle`), and the run as one document that
every view reads (`document`, whose keys `document_shape` names). Beside the readers lie the two verbs that a person has
for a recorded run, `export` and `erase`, and `tga_view`, which speaks the log's own specification.

Begin with `reader`: everything else is made of its steps. Then `document`.
"""
