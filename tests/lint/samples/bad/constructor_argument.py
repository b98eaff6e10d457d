"""Through a constructor that keeps what it is given."""


class Verdict:
    def __init__(self, text):
        self.text = text

    def is_gone(self):
        return self.text == "gone"  # expect: RN102


def judge(outcome):
    verdict = Verdict(outcome.message)
    if verdict.text:  # expect: RN101
        return 1
    return 0
