"""How unlike those learned from a row may be: by how much its variances are larger, and the chances of that."""

import numpy as np

SCALES = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
CHANCES = np.array([0.95, 0.4 / 15, 0.2 / 15, 0.1 / 15, 0.05 / 15])
