"""What belongs to this process and machine."""
import os
import platform
import socket
from pathlib import Path


def reads():
    return (
        os.getpid(),  # expect: RN210
        socket.gethostname(),  # expect: RN210
        platform.node(),  # expect: RN210
        os.cpu_count(),  # expect: RN210
        Path.cwd(),  # expect: RN210
    )
