-- Statements as users of CKAN write them, one a line. Tables: see sql_support.py.
SELECT * FROM readings
SELECT * FROM public.readings LIMIT 3
SELECT _id, station FROM readings ORDER BY _id LIMIT 2 OFFSET 3
SELECT "Upper Case", "Upper Case" || '!' AS b FROM readings ORDER BY _id
SELECT station AS "Where", n AS "How Many" FROM readings ORDER BY 1, 2
SELECT r.* FROM readings r WHERE r.n > 2
SELECT r.station, s.height FROM readings r JOIN sites s ON r.station = s.name ORDER BY r._id
SELECT r.station, s.height FROM readings r LEFT JOIN sites s ON r.station = s.name ORDER BY r._id
SELECT r.station, s.name FROM readings r RIGHT JOIN sites s ON r.station = s.name ORDER BY s.name, r._id
SELECT r._id AS a, s._id AS b FROM readings r FULL JOIN sites s ON r.station = s.name ORDER BY 1, 2
SELECT a._id AS first, b._id AS second FROM readings AS a, readings AS b WHERE a.station = b.station AND a._id < b._id ORDER BY 1, 2
SELECT count(*) FROM readings CROSS JOIN sites
SELECT name, count(*) FROM readings JOIN sites ON station = name GROUP BY name ORDER BY name
SELECT s.name FROM sites s WHERE EXISTS (SELECT 1 FROM readings r WHERE r.station = s.name) ORDER BY 1
SELECT s.name FROM sites s WHERE NOT EXISTS (SELECT 1 FROM readings r WHERE r.station = s.name) ORDER BY 1
SELECT name FROM sites WHERE name IN (SELECT station FROM readings) ORDER BY name
SELECT name FROM sites WHERE name NOT IN (SELECT station FROM readings WHERE station IS NOT NULL) ORDER BY name
SELECT name, (SELECT count(*) FROM readings WHERE station = name) AS readings FROM sites ORDER BY name
SELECT name, (SELECT max(x) FROM readings r WHERE r.station = s.name) AS most FROM sites s ORDER BY name
SELECT (SELECT max(n) FROM readings) - n AS d FROM readings ORDER BY _id
SELECT _id FROM readings WHERE n = (SELECT max(n) FROM readings)
SELECT _id FROM readings WHERE exact = ANY (SELECT height FROM sites)
SELECT ARRAY(SELECT name FROM sites ORDER BY name) AS names
WITH a AS (SELECT station, avg(x) AS m FROM readings GROUP BY station) SELECT station, m FROM a WHERE m > 0 ORDER BY station NULLS FIRST
WITH a(s, c) AS (SELECT station, count(*) FROM readings GROUP BY 1), b AS (SELECT max(c) AS most FROM a) SELECT a.s, a.c FROM a, b WHERE a.c = b.most
WITH a AS (SELECT 1 AS n UNION ALL SELECT 2), b AS (SELECT n * 2 AS m FROM a) SELECT * FROM a JOIN b ON b.m = a.n * 2 ORDER BY 1
SELECT * FROM (SELECT station, n FROM readings WHERE n > 1) AS q WHERE q.n < 5 ORDER BY q.n, q.station
SELECT q.a FROM (SELECT station FROM readings) AS q(a) ORDER BY 1
SELECT * FROM (VALUES (1, 'a'), (2, 'b'), (3, NULL)) AS v(num, letter) ORDER BY num DESC
VALUES (1, 2.5), (3, 4)
VALUES (1, 'x'), (2, 'y') ORDER BY 1 DESC LIMIT 1
SELECT station FROM readings UNION SELECT name FROM sites ORDER BY 1
SELECT station FROM readings UNION ALL SELECT name FROM sites ORDER BY station NULLS FIRST
SELECT station FROM readings INTERSECT SELECT name FROM sites ORDER BY 1
SELECT name FROM sites EXCEPT SELECT station FROM readings
SELECT exact AS v FROM readings UNION SELECT height FROM sites ORDER BY v
SELECT n AS v FROM readings UNION ALL SELECT exact FROM readings WHERE exact > 2 ORDER BY v
SELECT 1 AS a UNION SELECT 2.5 ORDER BY a
SELECT NULL AS a UNION ALL SELECT 1
(SELECT station, n FROM readings ORDER BY n DESC NULLS LAST LIMIT 1) UNION ALL (SELECT station, n FROM readings ORDER BY n LIMIT 1)
SELECT DISTINCT station FROM readings ORDER BY station
SELECT DISTINCT station, n FROM readings ORDER BY n DESC, station
SELECT DISTINCT exact FROM readings WHERE exact > 2 ORDER BY exact
SELECT count(DISTINCT exact) AS a, count(DISTINCT station) AS b, count(n) AS c FROM readings
SELECT DISTINCT ON (station) station, n FROM readings ORDER BY station, n DESC NULLS LAST, _id
SELECT DISTINCT ON (station) station, at, x FROM readings WHERE station IS NOT NULL ORDER BY station, at DESC LIMIT 2
SELECT station, count(*) FROM readings GROUP BY station ORDER BY count(*) DESC, station
SELECT station, count(*) AS c FROM readings GROUP BY station HAVING count(*) > 1 ORDER BY c DESC, 1
SELECT station, sum(n), avg(n), min(n), max(n) FROM readings GROUP BY station ORDER BY station
SELECT station, sum(x), avg(x), min(x), max(x) FROM readings GROUP BY station ORDER BY station
SELECT station, sum(exact), avg(exact), min(exact)::float8 AS low, max(exact)::float8 AS high FROM readings GROUP BY station ORDER BY station
SELECT sum(big) AS a, avg(big) AS b, min(big) AS c, max(big) AS d FROM readings
SELECT upper(station) AS u, count(*) FROM readings GROUP BY upper(station) ORDER BY u
SELECT upper(station) || '!' AS u, count(*) FROM readings GROUP BY upper(station) ORDER BY 1
SELECT upper(station) AS u, count(*) FROM readings GROUP BY u ORDER BY u
SELECT date_trunc('month', at) AS month, avg(x) FROM readings GROUP BY 1 ORDER BY 1
SELECT date_trunc('day', zoned) AS day, count(*) FROM readings GROUP BY date_trunc('day', zoned) ORDER BY day
SELECT extract(year FROM at) AS y, extract(month FROM at) AS m, count(*) FROM readings GROUP BY 1, 2 ORDER BY 1, 2
SELECT _id, station, count(*) FROM readings GROUP BY _id ORDER BY _id
SELECT r._id, r.station, s.height FROM readings r JOIN sites s ON s.name = r.station GROUP BY r._id, s._id ORDER BY 1
SELECT exact, count(*) FROM readings WHERE _id > 2 GROUP BY exact ORDER BY exact
SELECT sum(n) FILTER (WHERE ok) AS a, count(*) FILTER (WHERE x > 1) AS b, avg(x) FILTER (WHERE false) AS c FROM readings
SELECT bool_and(ok) AS a, bool_or(ok) AS b, every(n > 0) AS c FROM readings
SELECT count(*), sum(n), avg(n), max(n) FROM readings WHERE false
SELECT sum(CASE WHEN ok THEN 1 ELSE 0 END) AS yes, sum(CASE WHEN NOT ok THEN 1 END) AS no FROM readings
SELECT string_agg(station, ', ' ORDER BY station, _id) AS s FROM readings
SELECT string_agg(DISTINCT station, ';' ORDER BY station) AS s FROM readings
SELECT array_agg(n ORDER BY n DESC) AS a FROM readings WHERE n IS NOT NULL
SELECT array_agg(DISTINCT station ORDER BY station) AS a FROM readings WHERE station IS NOT NULL
SELECT array_agg(exact ORDER BY _id) AS a, array_agg(at ORDER BY _id) AS b FROM readings WHERE _id < 3
SELECT json_agg(n ORDER BY _id) AS a FROM readings
SELECT json_object_agg(name, height ORDER BY name) AS o FROM sites
SELECT stddev(n) AS a, variance(n) AS b, stddev_pop(n) AS c, var_pop(n) AS d FROM readings
SELECT stddev(x) AS a, variance(x) AS b, stddev_pop(x) AS c, var_samp(x) AS d FROM readings WHERE x < 100
SELECT stddev(exact) AS a, variance(exact) AS b FROM readings WHERE exact < 1000
SELECT corr(x, n) AS a, covar_pop(x, n) AS b, regr_slope(x, n) AS c, regr_intercept(x, n) AS d, regr_r2(x, n) AS e, regr_count(x, n) AS f FROM readings WHERE x < 100
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) AS median, percentile_disc(0.9) WITHIN GROUP (ORDER BY n) AS p FROM readings
SELECT station, percentile_cont(0.25) WITHIN GROUP (ORDER BY n) AS q FROM readings GROUP BY station ORDER BY station
SELECT mode() WITHIN GROUP (ORDER BY station) AS m FROM readings
SELECT _id, row_number() OVER (ORDER BY x DESC) AS r FROM readings ORDER BY 1
SELECT _id, rank() OVER (PARTITION BY station ORDER BY n) AS r, dense_rank() OVER (ORDER BY x) AS d FROM readings ORDER BY 1
SELECT _id, lag(x) OVER (ORDER BY _id) AS before, lead(x, 2, 0) OVER (ORDER BY _id) AS after FROM readings ORDER BY 1
SELECT _id, x - lag(x) OVER (PARTITION BY station ORDER BY at) AS change FROM readings ORDER BY 1
SELECT _id, sum(n) OVER (ORDER BY _id) AS running, avg(x) OVER (ORDER BY _id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS smooth FROM readings ORDER BY 1
SELECT _id, sum(exact) OVER (PARTITION BY station ORDER BY _id) AS s, avg(exact) OVER (PARTITION BY ok) AS a FROM readings ORDER BY 1
SELECT _id, first_value(station) OVER w AS f, last_value(station) OVER w AS l, nth_value(station, 2) OVER w AS t FROM readings WINDOW w AS (ORDER BY _id) ORDER BY 1
SELECT _id, ntile(3) OVER (ORDER BY _id) AS t, percent_rank() OVER (ORDER BY _id) AS p, cume_dist() OVER (ORDER BY _id) AS c FROM readings ORDER BY 1
SELECT _id, count(*) OVER () AS total, max(x) OVER (PARTITION BY station) AS m FROM readings ORDER BY 1
SELECT _id, avg(n) OVER (ORDER BY at RANGE BETWEEN INTERVAL '1 day' PRECEDING AND CURRENT ROW) AS a FROM readings WHERE at IS NOT NULL ORDER BY 1
SELECT _id, sum(n) OVER (ORDER BY n RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS a FROM readings WHERE n IS NOT NULL ORDER BY 1
SELECT station, sum(count(*)) OVER (ORDER BY station) AS c FROM readings GROUP BY station ORDER BY station
SELECT * FROM (SELECT station, n, row_number() OVER (PARTITION BY station ORDER BY at DESC) AS r FROM readings) q WHERE r = 1 ORDER BY station
SELECT _id FROM readings WHERE station LIKE 'L%' ORDER BY 1
SELECT _id FROM readings WHERE station LIKE '%ano' ORDER BY 1
SELECT _id FROM readings WHERE station LIKE 'l%' ORDER BY 1
SELECT _id FROM readings WHERE station ILIKE 'l%' ORDER BY 1
SELECT _id FROM readings WHERE station NOT LIKE '%o%' ORDER BY 1
SELECT _id FROM readings WHERE station LIKE '%\_1%' ORDER BY 1
SELECT _id FROM readings WHERE station LIKE '%!%' ESCAPE '!' ORDER BY 1
SELECT _id FROM readings WHERE station LIKE '%!%%' ESCAPE '!' ORDER BY 1
SELECT _id FROM readings WHERE station LIKE '_ugano' ORDER BY 1
SELECT _id FROM readings WHERE station SIMILAR TO '(L|P)%' ORDER BY 1
SELECT _id FROM readings WHERE station ~ '^[A-L]' ORDER BY 1
SELECT _id FROM readings WHERE station ~* 'lugano|BELL' ORDER BY 1
SELECT _id FROM readings WHERE station !~ 'a' ORDER BY 1
SELECT regexp_replace(station, '[aeiou]', '*', 'g') AS a, regexp_replace(station, '(.)(.)', '\2\1') AS b FROM readings ORDER BY _id
SELECT substring(station FROM '[A-Z][a-z]+') AS a, substring(station FROM 2 FOR 3) AS b, substring(station, 3) AS c FROM readings ORDER BY _id
SELECT regexp_match(station, '(.)n(.)') AS a FROM readings ORDER BY _id
SELECT regexp_split_to_array('a1b22c', '[0-9]+') AS a
SELECT regexp_split_to_table('a b  c', ' ') AS a
SELECT upper(station) AS a, lower(station) AS b, initcap(station) AS c, length(station) AS d, reverse(station) AS e FROM readings ORDER BY _id
SELECT left(station, 3) AS a, right(station, 3) AS b, left(station, -2) AS c, right(station, -2) AS d FROM readings ORDER BY _id
SELECT lpad(n::text, 5, '0') AS a, rpad(station, 12, '.') AS b, repeat('ab', 3) AS c FROM readings ORDER BY _id
SELECT trim('  x  ') AS a, ltrim('xxay', 'x') AS b, rtrim('ayxx', 'xy') AS c, trim(both 'x' FROM 'xax') AS d, btrim('--a--', '-') AS e
SELECT replace('banana', 'an', 'XY') AS a, translate('12345', '143', 'ax') AS b, split_part('a,b,c', ',', 2) AS c, split_part('a,b,c', ',', -1) AS d
SELECT position('na' IN 'banana') AS a, strpos('banana', 'x') AS b, overlay('abcdef' PLACING 'XX' FROM 2 FOR 3) AS c
SELECT concat('a', NULL, 1, true, 2.50) AS a, concat_ws('-', 'a', NULL, 'b') AS b, format('%s is %s', 'x', 5) AS c
SELECT 'a' || NULL AS a, 'a' || 1 AS b, 1 || 'b' AS c, 'x' || 1.50 AS d, station || n AS e FROM readings ORDER BY _id
SELECT ascii('A') AS a, chr(228) AS b, md5('abc') AS c, to_hex(255) AS d, starts_with('abc', 'ab') AS e, quote_ident('A b') AS f, quote_literal('it''s') AS g
SELECT 7 / 2 AS a, -7 / 2 AS b, 7 % 3 AS c, -7 % 3 AS d, 7 / 2.0 AS e, 7.0 / 3 AS f, 2 ^ 10 AS g, 5 / 2::float AS h
SELECT 1 / 3.0 AS a, 10 / 4.0 AS b, 1.0 / 7 AS c, 100000 / 3.0 AS d, 0.001 / 7 AS e, 12345678.9 / 0.0001 AS f
SELECT n / 2 AS a, n % 3 AS b, big / 7 AS c, n + big AS d, n * exact AS e, x * n AS f, exact / 3 AS g FROM readings WHERE x < 1000 ORDER BY _id
SELECT exact + 1 AS a, exact - exact AS b, exact * exact AS c, -exact AS d, exact % 7 AS e, abs(exact) AS f FROM readings ORDER BY _id
SELECT round(2.5) AS a, round(-2.5) AS b, round(2.345, 2) AS c, round(1234.5, -2) AS d, round(2.5::float) AS e, round(3.5::float) AS f, round(7, 1) AS g
SELECT round(exact, 1) AS a, round(x::numeric, 2) AS b, trunc(exact, 1) AS c, ceil(exact) AS d, floor(exact) AS e, sign(exact) AS f FROM readings ORDER BY _id
SELECT ceil(x) AS a, floor(x) AS b, round(x) AS c, trunc(x) AS d, sign(x) AS e, abs(x) AS f FROM readings ORDER BY _id
SELECT ceil(-0.5::float) AS a, abs(-5) AS b, mod(7, 3) AS c, div(7, 2) AS d, power(2, 3) AS e, sqrt(2) AS f, sqrt(2.0) AS g, cbrt(27) AS h
SELECT sqrt(12345.678) AS a, sqrt(0.0001) AS b, sqrt(1e10::numeric) AS c, scale(1.50) AS d, gcd(12, 18) AS e, lcm(4, 6) AS f
SELECT exp(1) AS a, ln(2::float) AS b, log(100::float) AS c, pi() AS d, degrees(pi()) AS e, radians(180) AS f, sin(1) AS g, atan2(1, 2) AS h
SELECT greatest(1, 2, NULL) AS a, least(3, 1.5) AS b, greatest('a', 'b') AS c, least(at, '2020-01-01') AS d FROM readings ORDER BY _id
SELECT coalesce(station, 'none') AS a, coalesce(NULL, n, 0) AS b, nullif(n, 3) AS c, coalesce(n, 0.5) AS d FROM readings ORDER BY _id
SELECT width_bucket(5.35, 0.024, 10.06, 5) AS a, width_bucket(x, 0, 10, 4) AS b FROM readings ORDER BY _id
SELECT CASE WHEN x > 2 THEN 'high' WHEN x > 0 THEN 'low' ELSE 'none' END AS level FROM readings ORDER BY _id
SELECT CASE n WHEN 1 THEN 'one' WHEN 3 THEN 'three' END AS word FROM readings ORDER BY _id
SELECT CASE WHEN true THEN 1 ELSE 2.5 END AS a, CASE WHEN false THEN 1 END AS b
SELECT '5'::int AS a, '5.5'::numeric AS b, '1e3'::float AS c, 'true'::boolean AS d, '2020-01-01'::date AS e, 'x'::text AS f, 5::text AS g
SELECT 2.5::int AS a, 3.5::int AS b, (-2.5)::int AS c, 2.5::float::int AS d, 3.5::float::int AS e, 1.999::float8::numeric AS f, true::int AS g, 0::bool AS h
SELECT x::text AS a, exact::text AS b, ok::text AS c, at::text AS d, zoned::text AS e, day::text AS f, clock::text AS g, doc::text AS h, list::text AS i, tags::text AS j FROM readings ORDER BY _id
SELECT exact::float8 AS a, x::numeric AS b, n::numeric AS c, big::text AS d FROM readings ORDER BY _id
SELECT exact::int AS a FROM readings WHERE abs(exact) < 1000 ORDER BY _id
SELECT cast('12.345' AS numeric(5, 2)) AS a, ('abcdef'::varchar(3))::text AS b, 99.995::numeric(6, 2) AS c
SELECT at::date AS a, at::time AS b, day::timestamp AS c, zoned::date AS d FROM readings ORDER BY _id
SELECT '{1,2,3}'::int[] AS a, ARRAY['a', 'b'] AS b, ARRAY[1, 2.5] AS c, '{"a b",NULL,c}'::text[] AS d
SELECT list[1] AS a, list[5] AS b, array_length(list, 1) AS c, cardinality(list) AS d, array_upper(list, 1) AS e FROM readings ORDER BY _id
SELECT array_to_string(tags, '|') AS a, array_to_string(list, ',', '*') AS b FROM readings ORDER BY _id
SELECT _id FROM readings WHERE 'red' = ANY(tags) ORDER BY 1
SELECT _id FROM readings WHERE 2 = ANY (list) OR n = ANY('{3,4}'::int[]) ORDER BY 1
SELECT _id FROM readings WHERE n <> ALL (ARRAY[1, 2]) ORDER BY 1
SELECT _id FROM readings WHERE tags @> ARRAY['red'] ORDER BY 1
SELECT _id FROM readings WHERE list && ARRAY[3, 9] ORDER BY 1
SELECT list || 5 AS a, list || ARRAY[6] AS b, array_append(list, 7) AS c, array_prepend(0, list) AS d, array_remove(list, 4) AS e, array_position(list, 2) AS f FROM readings ORDER BY _id
SELECT string_to_array('a,b,,c', ',') AS a, string_to_array('a,b', ',', 'b') AS b, array_cat(ARRAY[1], ARRAY[2]) AS c
SELECT unnest(tags) AS tag FROM readings ORDER BY _id, 1
SELECT unnest(tags) AS tag, count(*) FROM readings GROUP BY tag ORDER BY 2 DESC, 1
SELECT _id, unnest(list) AS item FROM readings ORDER BY 1, 2
SELECT r._id, t.tag FROM readings r, unnest(r.tags) AS t(tag) ORDER BY 1, 2
SELECT r._id, t FROM readings r CROSS JOIN LATERAL unnest(r.list) AS t ORDER BY 1, 2
SELECT r._id, t.item, t.place FROM readings r, unnest(r.list) WITH ORDINALITY AS t(item, place) ORDER BY 1, 3
SELECT * FROM generate_series(1, 5) AS s
SELECT * FROM generate_series(10, 1, -3) AS s(v)
SELECT generate_series(1, 3) AS v
SELECT s.d FROM generate_series('2020-01-01'::timestamp, '2020-01-03', '1 day') AS s(d)
SELECT d::date AS day, count(r._id) FROM generate_series('2020-01-30'::timestamp, '2020-02-02', '1 day') AS d LEFT JOIN readings r ON r.at::date = d::date GROUP BY 1 ORDER BY 1
SELECT generate_series(1.5, 3, 0.5) AS v
SELECT now() IS NOT NULL AS a, current_date IS NOT NULL AS b, now() > '2020-01-01' AS c, current_timestamp > at AS d FROM readings ORDER BY _id
SELECT _id FROM readings WHERE at >= '2020-01-31' AND at < '2020-02-01' ORDER BY 1
SELECT _id FROM readings WHERE at BETWEEN '2020-01-31T10:05:00' AND '2020-02-29' ORDER BY 1
SELECT _id FROM readings WHERE at > timestamp '2020-02-01' - interval '1 day' ORDER BY 1
SELECT _id FROM readings WHERE day = '2020-02-29' ORDER BY 1
SELECT _id FROM readings WHERE zoned < '2020-02-01 00:00:00+01' ORDER BY 1
SELECT _id FROM readings WHERE at::date = day ORDER BY 1
SELECT at + interval '1 month' AS a, at - interval '1 day 2 hours' AS b, day + 1 AS c, day - 1 AS d, day + interval '1 month' AS e FROM readings ORDER BY _id
SELECT at - '2020-01-01'::timestamp AS a, day - '2020-01-01'::date AS b, clock - '06:00'::time AS c, clock + interval '2 hours' AS d FROM readings ORDER BY _id
SELECT age(at, '2019-03-31'::timestamp) AS a, age('2020-03-01'::timestamp, at) AS b FROM readings ORDER BY _id
SELECT extract(epoch FROM at) AS a, extract(dow FROM at) AS b, extract(doy FROM at) AS c, extract(week FROM at) AS d, extract(quarter FROM at) AS e, extract(isoyear FROM at) AS f FROM readings ORDER BY _id
SELECT extract(hour FROM at) AS a, extract(minute FROM at) AS b, extract(second FROM at) AS c, extract(milliseconds FROM at) AS d, extract(century FROM at) AS e FROM readings ORDER BY _id
SELECT date_part('year', at) AS a, date_part('second', at) AS b, date_part('epoch', at - '2020-01-01') AS c, date_part('day', day) AS d FROM readings ORDER BY _id
SELECT date_part('hour', clock) AS a, extract(epoch FROM clock) AS b, extract(epoch FROM interval '1 year 2 months 3 days 04:05:06.5') AS c FROM readings ORDER BY _id
SELECT date_trunc('year', at) AS a, date_trunc('quarter', at) AS b, date_trunc('week', at) AS c, date_trunc('hour', at) AS d, date_trunc('minute', at) AS e FROM readings ORDER BY _id
SELECT date_trunc('day', day) AS a, date_trunc('month', zoned) AS b, date_trunc('day', interval '3 days 5 hours') AS c FROM readings ORDER BY _id
SELECT date_bin('15 minutes', at, '2020-01-01') AS b, count(*) FROM readings GROUP BY 1 ORDER BY 1
SELECT to_char(at, 'YYYY-MM-DD HH24:MI:SS') AS a, to_char(at, 'DD.MM.YY') AS b, to_char(at, 'Mon DD, YYYY') AS c, to_char(at, 'FMDay, FMDDth FMMonth') AS d FROM readings ORDER BY _id
SELECT to_char(at, 'Day Month') AS a, to_char(at, 'HH12:MI AM') AS b, to_char(at, 'IYYY-IW') AS c, to_char(at, 'Q WW DDD D J') AS d, to_char(at, 'MS US') AS e FROM readings ORDER BY _id
SELECT to_char(day, 'YYYY"W"WW') AS a FROM readings ORDER BY _id
SELECT to_char(1234.567, '9999.99') AS a, to_char(-5, '999') AS b, to_char(5, '000') AS c, to_char(1234567, '9,999,999') AS d, to_char(0.5, 'FM0.00') AS e, to_char(12.5, 'FM999.999') AS f, to_char(12345, '999') AS g
SELECT to_char(0, '999') AS a, to_char(0.0, '9.99') AS b, to_char(-0.5, '0.9') AS c, to_char(12, 'S999') AS d, to_char(1.5::float, '999D99') AS e, to_char(0.1, 'FM9.99') AS f
SELECT to_date('31.12.2020', 'DD.MM.YYYY') AS a, to_date('2020 Feb 3', 'YYYY Mon DD') AS b, to_date('20200115', 'YYYYMMDD') AS c
SELECT to_date('2020-00-00', 'YYYY-MM-DD') AS a, to_date('2020-000', 'YYYY-DDD') AS b, to_date('0001-000', 'YYYY-DDD') AS c
SELECT to_timestamp('2020-01-02 03:04:05', 'YYYY-MM-DD HH24:MI:SS') AS a, to_timestamp(1577836800) AS b, to_timestamp(1577836800.25) AS c, to_timestamp('05/06/2020 07:08 PM', 'DD/MM/YYYY HH12:MI PM') AS d
SELECT interval '1 day' AS a, interval '1.5 hours' AS b, interval '-3 days' AS c, interval '1 year 2 months 3 days 4 hours 5 minutes 6 seconds' AS d, interval 'P1DT2H' AS e, interval '2 weeks' AS f, interval '90 minutes' AS g
SELECT interval '1 day' * 3 AS a, interval '1 month' * 1.5 AS b, interval '1 day' / 2 AS c, interval '1 day' + interval '1 hour' AS d, -interval '1 day 1 hour' AS e, 2 * interval '45 seconds' AS f
SELECT interval '1 month' = interval '30 days' AS a, interval '1 day' > interval '23 hours' AS b, justify_hours(interval '27 hours') AS c, justify_days(interval '35 days') AS d, justify_interval(interval '1 mon -1 hour') AS e
SELECT make_date(2020, 2, 29) AS a, make_timestamp(2020, 1, 2, 3, 4, 5.5) AS b, make_interval(days => 10, hours => 2) AS c, make_interval(1, 2) AS d, make_time(8, 15, 23.5) AS e
SELECT at AT TIME ZONE 'Europe/Zurich' AS a, zoned AT TIME ZONE 'Europe/Zurich' AS b, zoned AT TIME ZONE 'UTC' AS c FROM readings ORDER BY _id
SELECT max(at) - min(at) AS a, avg(at - '2020-01-01') AS b, sum(at - '2020-01-01') AS c FROM readings
SELECT max(day) AS a, min(clock) AS b, max(zoned) AS c, min(at) AS d, max(at - '2020-01-01') AS e, max(station) AS f FROM readings
SELECT doc->'a' AS a, doc->>'a' AS b, doc->>'b' AS c, doc#>>'{a,b,c}' AS d, doc->0 AS e, doc#>'{c,1}' AS f FROM readings ORDER BY _id
SELECT (doc->>'a')::numeric AS a FROM readings WHERE doc->>'a' ~ '^[0-9.]+$' ORDER BY _id
SELECT json_typeof(doc) AS a, doc::jsonb AS b, (doc::jsonb)::text AS c FROM readings ORDER BY _id
SELECT json_array_length(doc->'list') AS a FROM readings WHERE doc->'list' IS NOT NULL
SELECT json_array_elements(doc->'list') AS a FROM readings
SELECT e FROM readings, json_array_elements_text(doc->'list') AS e ORDER BY 1
SELECT json_object_keys(doc) AS k FROM readings WHERE json_typeof(doc) = 'object' ORDER BY 1
SELECT _id FROM readings WHERE doc::jsonb @> '{"b": "x"}' ORDER BY 1
SELECT _id FROM readings WHERE doc::jsonb ? 'list' ORDER BY 1
SELECT to_json(list) AS a, to_json(station) AS b, json_build_object('n', n, 's', station) AS c, json_build_array(n, x, ok) AS d FROM readings WHERE x < 100 AND x > 0.01 ORDER BY _id
SELECT json_extract_path_text(doc, 'a', 'b', 'c') AS a FROM readings ORDER BY _id
SELECT ok AND n > 2 AS a, ok OR n IS NULL AS b, NOT ok AS c, ok IS TRUE AS d, ok IS NOT TRUE AS e, ok IS UNKNOWN AS f FROM readings ORDER BY _id
SELECT n IS NULL AS a, n IS NOT NULL AS b, n IS DISTINCT FROM 3 AS c, exact IS NOT DISTINCT FROM 1.5 AS d FROM readings ORDER BY _id
SELECT n = 3.0 AS a, exact = 1.5 AS b, x = 2.25 AS c, n < x AS d, exact > n AS e, big >= n AS f FROM readings ORDER BY _id
SELECT _id FROM readings WHERE exact = 1.5 ORDER BY 1
SELECT _id FROM readings WHERE exact < 1.50 ORDER BY 1
SELECT _id FROM readings WHERE exact >= 1.500 ORDER BY 1
SELECT _id FROM readings WHERE 1.5 < exact ORDER BY 1
SELECT _id FROM readings WHERE exact <> 1.5 ORDER BY 1
SELECT _id FROM readings WHERE exact IN (1.5, 0, 100.00) ORDER BY 1
SELECT _id FROM readings WHERE exact BETWEEN 0 AND 3.2 ORDER BY 1
SELECT _id FROM readings WHERE n BETWEEN SYMMETRIC 4 AND 2 ORDER BY 1
SELECT _id FROM readings WHERE n NOT BETWEEN 2 AND 4 ORDER BY 1
SELECT _id FROM readings WHERE n IN (1, 3, 5) ORDER BY 1
SELECT _id FROM readings WHERE n NOT IN (1, 3) ORDER BY 1
SELECT _id FROM readings WHERE station IN ('Lugano', 'bellinzona') ORDER BY 1
SELECT _id FROM readings WHERE n = '3' ORDER BY 1
SELECT _id FROM readings WHERE ok ORDER BY 1
SELECT _id FROM readings WHERE ok = true AND NOT (n > 3) ORDER BY 1
SELECT _id FROM readings WHERE ok = 'yes' ORDER BY 1
SELECT _id FROM readings ORDER BY station, n DESC, _id
SELECT _id FROM readings ORDER BY station DESC, _id
SELECT _id FROM readings ORDER BY n NULLS FIRST, _id
SELECT _id FROM readings ORDER BY n DESC NULLS LAST, _id DESC
SELECT _id FROM readings ORDER BY exact DESC, _id
SELECT _id FROM readings ORDER BY exact * -1, _id
SELECT _id, n AS x FROM readings WHERE n IS NOT NULL ORDER BY x, _id
SELECT _id, -n AS n FROM readings WHERE n IS NOT NULL ORDER BY n, _id
SELECT _id FROM readings ORDER BY length(station), _id LIMIT ALL
SELECT _id FROM readings ORDER BY _id FETCH FIRST 2 ROWS ONLY
SELECT _id FROM readings ORDER BY _id OFFSET 6
SELECT _id FROM readings ORDER BY _id LIMIT 1 + 1
SELECT * FROM readings WHERE 1 = 0
SELECT 1 AS one -- a comment; SELECT 2
SELECT /* a ; comment */ 'a;b' AS text
SELECT 'it''s' AS a, E'tab\there' AS b, $$dollar$$ AS c, U&'\00e4' AS d
SELECT 1 AS a WHERE 1 IN (1, NULL)
SELECT a.n FROM readings a JOIN readings b USING (_id) ORDER BY 1 NULLS FIRST LIMIT 3
SELECT * FROM (SELECT _id, n FROM readings) a JOIN (SELECT _id, x FROM readings) b USING (_id) ORDER BY _id
SELECT * FROM (SELECT _id, n FROM readings) a NATURAL JOIN (SELECT _id, station FROM readings) b ORDER BY _id
SELECT r._id, s.name FROM readings r JOIN sites s ON s.name = r.station AND s.height > 272.5 ORDER BY 1
SELECT count(*) FROM readings r, sites s WHERE r.station = s.name AND s.opened > '1985-01-01'
SELECT avg(diff) FROM (SELECT max(x) - min(x) AS diff FROM readings WHERE x < 1000 GROUP BY station) q
SELECT max(c) FROM (SELECT count(*) AS c FROM readings GROUP BY station) AS counts
SELECT station, round(avg(x)::numeric, 2) AS mean FROM readings GROUP BY station ORDER BY 2 DESC NULLS LAST, 1
SELECT round(100.0 * count(*) FILTER (WHERE ok) / count(*), 1) AS percent FROM readings
SELECT round(avg(n), 2) AS a, avg(n)::float AS b, avg(n)::numeric(10, 1) AS c FROM readings
SELECT count(*) * 2 AS a, sum(n) / count(n) AS b, sum(n)::float / count(*) AS c FROM readings
SELECT extract(year FROM at)::int AS year, count(*) FROM readings WHERE at IS NOT NULL GROUP BY year ORDER BY year
SELECT to_char(at, 'YYYY-MM') AS month, sum(n) FROM readings GROUP BY to_char(at, 'YYYY-MM') ORDER BY month
SELECT station, max(at) AS latest FROM readings GROUP BY station ORDER BY latest DESC NULLS LAST
SELECT 9223372036854775807 AS a, 2147483648 AS b, 12345678901234567890 AS c, -2147483648 AS d, 1e3 AS e, .5 AS f
SELECT 0.1 + 0.2 AS a, 0.1::float + 0.2::float AS b, 1.10 + 2.20 AS c, 3 * 1.5 AS d, 2.0 * 2.00 AS e
SELECT x FROM readings WHERE x > 1.5 ORDER BY x
SELECT '2020-01-01' < '2020-02-01' AS a, 'a' < 'B' AS b, 'Z' < 'a' AS c
SELECT name COLLATE "C" AS n FROM sites ORDER BY name COLLATE "C"
SELECT count(*) FROM (SELECT 1 AS a UNION ALL SELECT 1 UNION SELECT 2) q
SELECT NULL::int AS a, NULL::text AS b, NULL AS c
SELECT bit_and(n) AS a, bit_or(n) AS b FROM readings
SELECT n & 3 AS a, n | 8 AS b, ~n AS c FROM readings ORDER BY _id
SELECT sum(DISTINCT n) AS a, avg(DISTINCT n) AS b, count(DISTINCT ok) AS c FROM readings
SELECT num_nulls(n, big, station) AS a, num_nonnulls(n, big) AS b FROM readings ORDER BY _id
SELECT nullif(n, x) AS a, nullif(n, big) AS b, nullif(n, 1.5) AS c, nullif(day, at) AS d, nullif('a', station) AS e FROM readings ORDER BY _id
-- Found by made statements.
SELECT exact ^ 2 AS a, power(exact, 3) AS b, 2 ^ 0.5 AS c, 0.05 ^ 7 AS d, 1.5 ^ -2 AS e, n ^ 2 AS f FROM readings WHERE abs(exact) < 1000 ORDER BY _id
SELECT ln(exact + 30) AS a, exp(1.5) AS b, exp(-20.5) AS c, log(exact + 30) AS d, log(2.0, 64.0) AS e, ln(1.05) AS f, power(2.5, 0.3) AS g FROM readings WHERE abs(exact) < 1000 ORDER BY _id
SELECT 5::smallint + 3::smallint AS a, -(5::smallint) AS b, 7::smallint / 2::smallint AS c, stddev(n::smallint) AS d FROM readings
SELECT to_hex(-1) AS a, to_hex(-1::bigint) AS b, to_hex(big) AS c FROM readings ORDER BY _id
SELECT extract(julian FROM at) AS a, extract(julian FROM day) AS b FROM readings ORDER BY _id
SELECT station ~ '^\w+$' AS a, station ~ '[[:alpha:]]{6}' AS b, substring('Ägeri ß_1' FROM '\w+') AS c, regexp_replace('Zürich, Genève', '[^\w]+', '-', 'g') AS d, 'É' ~* '[[:lower:]]' AS e FROM readings ORDER BY _id
SELECT regexp_replace('abxc', 'x*', '#', 'g') AS a, regexp_count('abc', '\y') AS b, regexp_replace(E'a\nb', '^.', '*', 'gn') AS c, regexp_match(E'a\nb', '[^a]', 'n') AS d
SELECT lower('İSTANBUL') AS a, upper('straße ǆ') AS b, 'İ' ILIKE 'i' AS c
SELECT 'x' IS NULL AS a, 'x' IS NOT NULL AS b, num_nulls('x', NULL) AS c
SELECT to_json(at) AS a, to_json(clock) AS b, json_build_object('at', at, 'x', x, 'q', exact)::text AS c, json_build_array(n, station)::text AS d FROM readings WHERE n < 3 ORDER BY _id
SELECT json_agg(n ORDER BY _id)::text AS a, json_object_agg(_id, at ORDER BY _id)::text AS b, jsonb_agg(zoned ORDER BY _id)::text AS c FROM readings WHERE n < 3
SELECT '{"a": [1, 1e2,  {"b":1.50}]}'::json #>> '{a,2}' AS a, '{"a":  1e2}'::json ->> 'a' AS b, '{"a": 1e2}'::jsonb ->> 'a' AS c, '{"a": {"b":1}}'::jsonb #>> '{a}' AS d, '5'::jsonb ->> 0 AS e
SELECT '[1.0, 1e1]'::jsonb = '[1, 10]' AS a, ARRAY[1.50, 2] = ARRAY[1.5, 2.0] AS b, '[12345678901234567890123, 0.5]'::jsonb AS c
SELECT to_char(1, 'SG99') AS a, to_char(-0.4::float, '999') AS b, to_char(0, 'FM99.99') AS c, to_char(1e20::float, '9.9') AS d, to_char(-5, '999PR') AS e, to_char(12, '99MI') AS f, to_char(7, '99S') AS g, to_char(2.5::float, '9') AS h, to_char(1234, '9G999" m"') AS i
SELECT _id, sum(exact) OVER (ORDER BY _id ROWS 1 PRECEDING) AS a, var_pop(exact) OVER (ORDER BY _id ROWS 1 PRECEDING) AS b FROM readings ORDER BY _id
SELECT min(_id) AS a, max(_id) AS b, count(*) AS c, max(_id) - min(_id) AS d, coalesce(max(_id), 0) AS e FROM readings
SELECT min(_id), max(_id), count(*) FROM readings WHERE station = 'Lugano'
SELECT min(_id), max(_id), (SELECT count(*) FROM sites) AS s FROM readings LIMIT 1
SELECT max(_id), count(n), count(*) FILTER (WHERE ok) AS c FROM readings
SELECT interval '1-2' AS a, interval '-1-6' AS b, interval '0.1 year' AS c, interval '1.5 months' AS d, interval '3 4:05:06' AS e, interval '1 d 2h' AS f
SELECT timestamptz '2020-07-01 12:00Z' AT TIME ZONE 'CET' AS a, timestamptz '2020-07-01 12:00Z' AT TIME ZONE 'europe/zurich' AS b, timestamp '2020-07-01' AT TIME ZONE 'EDT' AS c
