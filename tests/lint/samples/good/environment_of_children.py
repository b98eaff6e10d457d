"""The environment handed on as a whole, and configuration as a parameter."""
import os
import subprocess


def run(command, extra):
    return subprocess.run(command, env={**os.environ, **extra}, check=False)


def copy():
    return dict(os.environ)


def endpoint(parameters):
    return parameters.get("api_url", "https://api.example.com")
