"""The laboratory: experiments with cost models and extractors on frozen e-graphs, exchange with other tools, reports."""
