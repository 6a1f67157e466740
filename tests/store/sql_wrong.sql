-- Statements that PostgreSQL refuses, and the store has to.
SELECT zip_code FROM readings
SELECT Station FROM Readings r WHERE r.nothing = 1
SELECT UPPER CASE FROM readings
SELECT station, count(*) FROM readings
SELECT station FROM readings GROUP BY n
SELECT station FROM readings WHERE count(*) > 1
SELECT sum(sum(n)) FROM readings
SELECT n FROM readings a, readings b
SELECT * FROM readings, readings
SELECT b.n FROM readings a
SELECT 1 / 0
SELECT n / (n - n) FROM readings
SELECT 1.0 / 0
SELECT 'a'::int
SELECT 'maybe'::boolean
SELECT '2020-13-01'::date
SELECT 2147483647 + 1
SELECT 9223372036854775807 + 1
SELECT 1e308::float * 10
SELECT station + 1 FROM readings
SELECT n || n FROM readings
SELECT n LIKE '1%' FROM readings
SELECT station = 1 FROM readings
SELECT sum(station) FROM readings
SELECT round(x, 2) FROM readings
SELECT avg(ok) FROM readings
SELECT max(ok) FROM readings
SELECT upper(n) FROM readings
SELECT length(1)
SELECT lower(station, 2) FROM readings
SELECT * FROM readings WHERE station
SELECT * FROM readings WHERE n
SELECT CASE WHEN n THEN 1 END FROM readings
SELECT CASE WHEN ok THEN 1 ELSE 'x' END FROM readings
SELECT 1 UNION SELECT 'a'
SELECT 1, 2 UNION SELECT 3
SELECT coalesce(n, 'x') FROM readings
SELECT station FROM readings ORDER BY 2
SELECT DISTINCT station FROM readings ORDER BY n
SELECT DISTINCT ON (n) station FROM readings ORDER BY station
SELECT station FROM readings UNION SELECT name FROM sites ORDER BY n
SELECT (SELECT n FROM readings)
SELECT (SELECT n, x FROM readings LIMIT 1)
SELECT n IN (SELECT n, x FROM readings) FROM readings
SELECT row_number() FROM readings
SELECT * FROM readings LIMIT -1
SELECT sqrt(-1)
SELECT ln(0::float)
SELECT doc = doc FROM readings
SELECT DISTINCT doc FROM readings
SELECT min(doc) FROM readings
SELECT list + 1 FROM readings
SELECT date_trunc('fortnight', at) FROM readings
SELECT extract(foo FROM at) FROM readings
SELECT to_date('x', 'YYYY')
SELECT station ~ '(' FROM readings
SELECT at - 1 FROM readings
SELECT day + day FROM readings
SELECT n::date FROM readings
SELECT 1 AS a FROM readings r WHERE q.n = 1
SELECT generate_series(1, 10, 0)
WITH a AS (SELECT 1) SELECT * FROM b
SELECT * FROM (SELECT 1 AS a) q WHERE b = 1
SELECT count(*) FROM readings HAVING n > 1
SELECT sum(n) OVER (ORDER BY nothing) FROM readings
SELECT _id FROM readings WHERE row_number() OVER () = 1
SELECT max(n) FILTER (WHERE 1) FROM readings
SELECT json_array_length('{}'::json)
SELECT '{'::json
SELECT '{1,2'::int[]
SELECT interval 'one day'
SELECT make_date(2020, 2, 30)
SELECT split_part('a', ',', 0)
SELECT percentile_cont(2) WITHIN GROUP (ORDER BY x) FROM readings
SELECT to_json('x')
SELECT n COLLATE "C" FROM readings
SELECT quote_ident(5)
SELECT concat_ws(1, 'a', 'b')
SELECT make_interval(days => 1.5)
SELECT json_extract_path(doc, 0) FROM readings
SELECT regexp_match('a', 'a', 'g')
SELECT exp(-1000::float)
SELECT 1e-300::float * 1e-300::float
SELECT degrees(1e308::float)
SELECT to_timestamp('1e308'::float)
SELECT interval '1 day' / 1e-300::float
SELECT (-9223372036854775808) / (-1)
SELECT power(-1.0, 0.5)
SELECT to_char(1, 'SG9S')
SELECT 'x' || '1'::jsonb
SELECT to_date('2020-400', 'YYYY-DDD')
SELECT to_date('0001-400', 'YYYY-DDD')
SELECT interval '1 day 1 day'
SELECT interval '1 hour 02:00'
SELECT interval '1day2hours'
SELECT interval '1-12'
