"""The CPU family: task programs, their verifier and interpreter, and the implementations that expand structured programs into them."""
