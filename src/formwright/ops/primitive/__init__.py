"""The primitives that programs are made of."""
