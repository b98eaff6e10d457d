"""`python -m benchmarks.first_hour`: what was counted, as a table."""

from benchmarks.first_hour.count import PROGRAMS, concepts, lines, source_of

for library in PROGRAMS:
    source = source_of(library)
    met = concepts(source, library)
    print(f"{library:10} {lines(source):3} lines  {len(met):3} names: {', '.join(met)}")
