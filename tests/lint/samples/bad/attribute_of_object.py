"""Through an object's attribute, within a function."""


def note(box, outcome):
    box.text = outcome.message
    return box.text == "gone"  # expect: RN102
