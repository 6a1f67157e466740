-- Tables whose data dictionary says that they are to be read as procedures: found without a look at the others.
-- Kinds of tables: no new ones.

CREATE INDEX package_resource_declared ON package_resource (id) WHERE active AND instr(document, '"thalweg":');
