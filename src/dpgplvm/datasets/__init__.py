"""Simulated tables whose causes are known."""

from dpgplvm.datasets.views import Views, make_views
from dpgplvm.datasets.walkers import Walkers, make_walkers

__all__ = ["Views", "Walkers", "make_views", "make_walkers"]
