//! Matrices in their images, and their products with rows of activations.
