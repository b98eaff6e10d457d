"""Dicts and lists remember the order of insertion."""


def unique(names):
    return list(dict.fromkeys(names))


def loop(table, emit):
    for key, value in table.items():
        emit(key, value)
    for key in table:
        emit(key)
    return [key.upper() for key in table.keys()]
