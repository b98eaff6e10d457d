"""Every rule: its id, how grave it is, why it exists, and an example of each side. The reference is made from this."""

from __future__ import annotations

from typing import Final

from reenact.lint.rule import Rule
from reenact.lint.rules_about_chance import CHANCE_RULES
from reenact.lint.rules_about_fields import FIELD_RULES
from reenact.lint.rules_about_files import FILE_RULES

RULES: Final[dict[str, Rule]] = {rule.id: rule for rule in (*FILE_RULES, *FIELD_RULES, *CHANCE_RULES)}

__all__ = ["RULES", "Rule"]
