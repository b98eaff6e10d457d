"""Errors told apart by type and number; their text is for people."""
import errno
import logging

log = logging.getLogger(__name__)


def code_of(get):
    try:
        return get()
    except TimeoutError as error:
        log.warning("timed out: %s", error)
        return "ERR_TIMEOUT"
    except OSError as error:
        if error.errno == errno.ECONNREFUSED:
            return "ERR_CONNECTION_REFUSED"
        raise RuntimeError(f"unexpected: {error}") from error


class Failure(Exception):
    def __init__(self, message):
        super().__init__(message)
        self.message = message

    def __str__(self):
        return self.message or "failure"
