"""Writes arrays of Python objects, whose pickles call print when they are loaded. NumPy 2."""

import numpy as np


class Called:
    def __reduce__(self):
        return print, ("called",)


objects = np.array([Called()], dtype=object)
record = np.array([(1, Called())], dtype=[("a", "<i4"), ("b", object)])
np.save("objects.npy", objects)
np.savez("objects.npz", w=np.ones(2, "<f4"), objects=objects)
np.savez_compressed("records.npz", text=np.array(["a"]), plain=np.array([(1, 2)], dtype="<i4,<i4"), record=record)
np.savez("harmless.npz", text=np.array(["a"]), plain=np.array([(1, 2)], dtype="<i4,<i4"))
