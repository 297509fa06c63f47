"""Items that come and go: rules about what may be shown, slates, and what is known of new items."""

from igcf.catalogue.compiled import CompiledRules
from igcf.catalogue.rules import Rules, read_rules

__all__ = ["CompiledRules", "Rules", "read_rules"]
