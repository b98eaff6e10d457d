"""The verifier: checks a run's evidence, and shares with what wrote it only values and errors.

In comes a bundle's folder or zip, or the lines and payloads of a run; out comes a `Report` with four verdicts and the
first break. Imports no store, no runtime and no replay. Begin with `verifier`.

The steps, as the code repeats them and as `docs/spec/bundle.md` prints them:

1. The manifest is there, canonical and well formed.
2. Keys, notes and erasure records are well formed; each key is the one that its kid names, each record recomputes, each
   rotation is signed by the key before it, each replacement by the new one, each erasure by a key of the store.
3. Every line of the journal, in order:
    1. its bytes are the canonical form of a value of a known form, ended by a newline;
    2. each commit has the next number, names the digest of the one before it, and belongs to the run;
    3. lines stand in the order that a commit has, and nothing stands after the seal;
    4. the run record stands first, and the plan that it names recomputes to its hash.
4. Every trace, while its lines go by:
    1. entries: sequence, previous digest, state and transition, digest;
    2. artifacts: digest, id, time, and the links request, decision, call, effect; the call is the proposal;
    3. capabilities: claims fit request and call, the lifetime covers the call, the signature fits its key;
    4. attempts: chain, digest, numbers; the effect's sums follow from them;
    5. checkpoints of traces are what the entries fold to;
    6. checkpoints of the run are what its lines add up to;
    7. payloads, when they are first named: present and unchanged, or erased on record, and in agreement with the
       records that name them.
5. The seal recomputes, covers the lines before it, and its counts and roots are those of the traces and attempts.
6. The copies beside the journal, of seal and plan, are the journal's.
7. The runs that this one continues, in `parents`, verify by the same steps; each is the one that the run before it
   names, and has the same `keys.json`. What is found in them counts as found here; they need no seal.
8. The folder, or the zip of it, holds the files of the manifest and no others, with their digests, and no payload that
   nobody names; what file managers leave behind is told and breaks nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reenact.lazy import loading

if TYPE_CHECKING:
    from reenact.verify.payloads import PayloadSource
    from reenact.verify.render import human
    from reenact.verify.report import CODES, Counts, Finding, Report, Where
    from reenact.verify.verifier import verify_bundle, verify_lines

# name → module. Loaded when first asked for: the store's log needs the tree's sums alone, and no verifier.
_HOME = {
    "CODES": "reenact.verify.report",
    "Counts": "reenact.verify.report",
    "Finding": "reenact.verify.report",
    "PayloadSource": "reenact.verify.payloads",
    "Report": "reenact.verify.report",
    "Where": "reenact.verify.report",
    "human": "reenact.verify.render",
    "verify_bundle": "reenact.verify.verifier",
    "verify_lines": "reenact.verify.verifier",
}

__all__ = [
    "CODES",
    "Counts",
    "Finding",
    "PayloadSource",
    "Report",
    "Where",
    "human",
    "verify_bundle",
    "verify_lines",
]

__getattr__ = loading(__name__, _HOME)
