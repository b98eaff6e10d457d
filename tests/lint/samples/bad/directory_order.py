"""Listings in the order of the file system."""
import glob
import os
from pathlib import Path


def names(folder):
    for name in os.listdir(folder):  # expect: RN207
        print_it(name)


def paths(folder: Path):
    return [path.name for path in folder.iterdir()]  # expect: RN207


def found(folder):
    return list(Path(folder).rglob("*.json"))  # expect: RN207


def first(pattern):
    return glob.glob(pattern)[0]  # expect: RN207


def print_it(name):
    return name
