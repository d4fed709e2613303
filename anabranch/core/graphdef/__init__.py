"""Graphs as GraphDefs: export, import, surgery."""
