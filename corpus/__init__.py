"""The corpus: kernels written with the builder (`corpus/*.py`) and their JSON (`corpus/json`), see `corpus.build`."""
