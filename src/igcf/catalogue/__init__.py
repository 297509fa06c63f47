"""Items that come and go: rules about what may be shown, slates, and what is known of new items."""

from igcf.catalogue.compiled import CompiledRules
from igcf.catalogue.exposure import Exposure
from igcf.catalogue.new_items import NewItems
from igcf.catalogue.recommender import Recommender
from igcf.catalogue.rules import Rules, read_rules

__all__ = ["CompiledRules", "Exposure", "NewItems", "Recommender", "Rules", "read_rules"]
