"""Extraction from plain e-graphs: classes of weighted e-nodes, several roots, DAG cost. Other tools' e-graphs are of this kind, and a
frozen graph under one binding row is lowered to it (`lower`)."""
