"""SQL of users: PostgreSQL's, whatever the store. Parsed and checked here, run by a store."""
