"""PostgreSQL's SQL on the embedded store: translated with types known, run in processes of their own."""
