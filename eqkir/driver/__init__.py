"""The driver: kernels through the stages, one isolated job each; workers, artifacts, failure bundles."""
