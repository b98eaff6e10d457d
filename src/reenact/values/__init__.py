"""What bytes mean: canonical JSON, digests, ids, envelopes, and the one clock behind time, ids and randomness.

Values go in, bytes and digests come out, the same on every machine; `parse` is the way back. Nothing else in the
package reads the clock, draws a random number or dumps JSON. Begin with `canonical`, then `clock`.
"""
