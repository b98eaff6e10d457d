"""`__hash__` is what `hash()` is for; names of one's own are not the builtins."""


class Key:
    def __init__(self, name):
        self.name = name

    def __hash__(self):
        return hash(self.name)

    def __repr__(self):
        return f"<Key {id(self):x}>"


def local(hash, id):
    return hash(1), id(2)


def shadowed(rows):
    id = rows[0]
    return id


def walk(value, seen=None):
    """Addresses that only tell objects apart within one process."""
    seen = seen or set()
    if id(value) in seen:
        return 0
    seen.add(id(value))
    marks = {id(item): item for item in value}
    marks[id(value)] = value
    return len(marks) + sum(walk(item, seen) for item in value if marks[id(item)])
