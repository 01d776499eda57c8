"""Measures a graphics card without any model: random weights of real shapes, each stage told as it ends."""
