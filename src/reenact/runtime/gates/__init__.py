"""Checks that may deny a call before it is authorized. Each is pure: what it needs in, a refusal or nothing out."""
