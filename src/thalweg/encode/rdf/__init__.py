"""RDF in and out: bodies to quads, quads to members, documents of streams and nodes (RDF 1.1; TREE; LDES)."""
