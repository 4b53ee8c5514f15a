"""Readable text of the stages: KIR, programs, e-graphs. For people; nothing reads it back."""
