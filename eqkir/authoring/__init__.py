"""Tools for authors of rules: lint, soundness check, explanation, impact, templates."""
