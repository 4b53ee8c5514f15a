"""The Mojo provider: operations as Mojo expressions, compilation of modules to native code, the task pool, artifacts and calls."""
