# -*- coding: utf-8 -*-
"""Writes the fixtures that begin with old_: by NumPy 1.13.3 on Python 2.7.18, seed 7. generate.py says what is in them.

Run with that Python; its savez notes the time at which it ran, so a second run makes other bytes.
"""
import os
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
assert np.__version__ == "1.13.3", np.__version__
random = np.random.RandomState(7)
w = random.normal(size=(3, 5)).astype("<f4")
b = random.randint(-9, 9, 6).astype("<i4")
np.save(os.path.join(HERE, "old_matrix.npy"), w)
np.save(os.path.join(HERE, "old_fortran.npy"), np.asfortranarray(w))
np.savez(os.path.join(HERE, "old_archive.npz"), w=w, b=b, s=np.array(2.5))
np.savez_compressed(os.path.join(HERE, "old_deflated.npz"), w=w, b=b)
