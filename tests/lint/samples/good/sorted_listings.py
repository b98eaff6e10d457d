"""Listings that are put in order, or whose order plays no part."""
import os
from pathlib import Path


def names(folder):
    for name in sorted(os.listdir(folder)):
        yield name


def later(folder):
    found = [path.name for path in Path(folder).iterdir() if path.is_file()]
    found.sort()
    return found


def counted(folder: Path):
    return len(list(folder.glob("*.json"))), any(folder.iterdir()), set(os.listdir(folder))


def walk(folder):
    for root, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            yield os.path.join(root, name)
