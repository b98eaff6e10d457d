"""What the demo runs: a flaky service, a plan that uses it, a skill of its own, and the claims that are checked."""
