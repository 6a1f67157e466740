-- Tables jfk, lga and ewr are procedures; airports is a table of records.
SELECT * FROM jfk ORDER BY time LIMIT 3
SELECT * FROM jfk ORDER BY _id DESC LIMIT 3 OFFSET 5000
SELECT * FROM jfk ORDER BY time DESC LIMIT 1
SELECT count(*), count(temp) AS t, count(wind_gust) AS w, min(time), max(time) FROM ewr
SELECT time, temp FROM jfk WHERE time >= '2013-07-01' AND time < '2013-07-02' ORDER BY time
SELECT time, temp FROM jfk WHERE time > '2013-07-01T00:00:00Z' AND time <= '2013-07-01T05:00:00+02:00' ORDER BY time
SELECT count(*) FROM jfk WHERE time BETWEEN '2013-03-01' AND '2013-04-01'
SELECT count(*) FROM jfk WHERE NOT time BETWEEN '2013-03-01' AND '2013-04-01'
SELECT count(*) FROM jfk WHERE time < '2013-03-01' OR time >= '2013-12-01'
SELECT temp FROM jfk WHERE time = '2013-07-04 12:00+00'
SELECT temp FROM jfk WHERE time IN ('2013-07-04 12:00+00', '2013-07-04 13:00+00', '1999-01-01') ORDER BY time
SELECT temp FROM jfk WHERE _id = 1372939200000000
SELECT count(*) FROM jfk WHERE _id >= 1372939200000000 AND _id < 1373025600000000
SELECT count(*) FROM jfk WHERE _id > 1372939200000000.5
SELECT count(*) FROM jfk WHERE time > NULL
SELECT count(*) FROM jfk WHERE time IS NULL OR _id IS NULL
SELECT count(*) FROM jfk WHERE time >= '2014-01-01' OR time < '2012-01-01'
SELECT count(*) FROM jfk WHERE time > '2013-06-01'::date + interval '10 days' AND time <= timestamp '2013-06-12 00:00'
SELECT count(*), avg(temp) FROM jfk WHERE time >= '2013-06-01' AND time < '2013-07-01' AND temp > 80
SELECT time::date AS day, max(temp) - min(temp) AS span FROM jfk WHERE time < '2013-02-01' GROUP BY day ORDER BY span DESC, day LIMIT 5
SELECT date_trunc('month', time) AS month, avg(temp), min(temp), max(temp), count(*) FROM jfk GROUP BY month ORDER BY month
SELECT date_trunc('day', time) AS d, avg(humid) AS a, stddev(humid) AS s, count(humid) FROM lga GROUP BY d ORDER BY d
SELECT date_trunc('week', time) AS w, sum(precip) AS rain FROM ewr GROUP BY 1 ORDER BY 1
SELECT date_trunc('hour', time) AS h, count(*) FROM ewr GROUP BY 1 HAVING count(*) > 1 ORDER BY 1
SELECT date_trunc('quarter', time) AS q, percentile_cont(0.5) WITHIN GROUP (ORDER BY temp) AS median FROM jfk GROUP BY q ORDER BY q
SELECT date_bin('6 hours', time, '2013-01-01') AS b, avg(temp) FROM jfk WHERE time < '2013-01-10' GROUP BY b ORDER BY b
SELECT extract(hour FROM time) AS hour, round(avg(temp)::numeric, 2) AS mean FROM jfk GROUP BY hour ORDER BY hour
SELECT date_part('dow', time) AS dow, count(*) FROM jfk GROUP BY dow ORDER BY dow
SELECT to_char(time, 'YYYY-MM') AS m, count(*) FILTER (WHERE wind_speed > 20) AS windy FROM jfk GROUP BY m ORDER BY m
SELECT time, temp, temp - lag(temp) OVER (ORDER BY time) AS step FROM jfk WHERE time >= '2013-07-01' AND time < '2013-07-02' ORDER BY time
SELECT time, avg(temp) OVER (ORDER BY time ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS smooth FROM jfk WHERE time < '2013-01-03' ORDER BY time
SELECT time, rank() OVER (ORDER BY temp DESC, time) FROM jfk ORDER BY 2 LIMIT 10
SELECT DISTINCT ON (time::date) time::date AS day, time, temp FROM jfk WHERE time < '2013-01-15' ORDER BY time::date, temp DESC NULLS LAST, time
SELECT DISTINCT wind_dir FROM jfk ORDER BY wind_dir
SELECT DISTINCT time FROM jfk ORDER BY time DESC LIMIT 4
SELECT time, count(*) FROM jfk GROUP BY time ORDER BY time DESC LIMIT 4
SELECT a.time, a.temp, b.temp AS other FROM jfk a JOIN lga b ON a.time = b.time WHERE a.time >= '2013-07-01' AND a.time < '2013-07-02' ORDER BY a.time
SELECT count(*), avg(a.temp - b.temp), corr(a.temp, b.temp) FROM jfk a JOIN lga b ON a.time = b.time
SELECT count(*), avg(a.temp - b.temp) FROM jfk a JOIN lga b USING (time)
SELECT count(*), count(b.temp) AS n FROM jfk a LEFT JOIN ewr b ON b.time = a.time AND b.temp > 60
SELECT a.time, b.time AS other FROM jfk a FULL JOIN ewr b ON b.time = a.time WHERE a.time IS NULL OR b.time IS NULL ORDER BY a.time NULLS FIRST, b.time LIMIT 20
SELECT b.time FROM jfk a LEFT JOIN ewr b ON b.time = a.time AND b.time < '2013-01-02' ORDER BY b.time DESC NULLS LAST LIMIT 3
SELECT b.time FROM jfk a LEFT JOIN ewr b ON b.time = a.time AND b.time < '2013-01-02' ORDER BY b.time NULLS FIRST LIMIT 3
SELECT n.name, (SELECT max(temp) FROM jfk) AS hottest FROM airports n WHERE n.name = 'JFK'
SELECT n.name, x.d, x.t FROM airports n JOIN (SELECT 'JFK' AS name, time::date AS d, avg(temp) AS t FROM jfk WHERE time < '2013-01-04' GROUP BY 2) x ON x.name = n.name ORDER BY x.d
SELECT a.opened, j.temp FROM airports a LEFT JOIN jfk j ON j.time = a.opened ORDER BY a.name
SELECT count(*) FROM jfk j WHERE EXISTS (SELECT 1 FROM airports a WHERE a.opened = j.time)
SELECT count(*) FROM jfk a WHERE a.time NOT IN (SELECT time FROM lga)
SELECT time FROM jfk EXCEPT SELECT time FROM lga ORDER BY time
SELECT 'jfk' AS name, max(temp) FROM jfk UNION ALL SELECT 'lga', max(temp) FROM lga UNION ALL SELECT 'ewr', max(temp) FROM ewr ORDER BY 1
WITH daily AS (SELECT time::date AS day, avg(temp) AS mean FROM jfk GROUP BY 1) SELECT day, mean FROM daily WHERE mean > (SELECT avg(mean) + 2 * stddev(mean) FROM daily) ORDER BY day
WITH a AS (SELECT * FROM jfk WHERE time >= '2013-05-01'), b AS (SELECT * FROM a WHERE time < '2013-05-02') SELECT count(*), sum(wind_speed) FROM b
SELECT g.day, count(j.time) FROM generate_series('2012-12-30'::timestamptz, '2013-01-04'::timestamptz, '1 day') AS g(day) LEFT JOIN jfk j ON j.time >= g.day AND j.time < g.day + interval '1 day' GROUP BY g.day ORDER BY g.day
SELECT max(time) FROM jfk WHERE temp IS NOT NULL AND wind_gust > 40
SELECT min(_id) AS a, max(_id) AS b, min(time), max(time) FROM jfk
SELECT time, temp FROM jfk WHERE temp = (SELECT max(temp) FROM jfk) ORDER BY time
SELECT string_agg(temp::text, ',' ORDER BY time) FROM jfk WHERE time < '2013-01-01T12:00Z'
SELECT array_agg(wind_dir ORDER BY time DESC) FROM jfk WHERE time < '2013-01-01T12:00Z'
SELECT time AT TIME ZONE 'America/New_York' AS local, temp FROM jfk ORDER BY time LIMIT 2
SELECT date_trunc('day', time, 'America/New_York') AS day, count(*) FROM jfk WHERE time < '2013-01-05' GROUP BY day ORDER BY day
SELECT width_bucket(temp, 0, 100, 10) AS b, count(*) FROM jfk GROUP BY b ORDER BY b
SELECT temp_quality, count(*) FROM jfk GROUP BY temp_quality ORDER BY temp_quality
SELECT jfk.* FROM jfk, lga WHERE jfk.time = lga.time AND lga.time < '2013-01-01T09:00Z' ORDER BY jfk.time
SELECT count(*) FROM jfk a, lga b, ewr c WHERE a.time = b.time AND b.time = c.time
SELECT a.time FROM jfk a JOIN lga b ON a._id = b._id WHERE b.temp > 95 ORDER BY 1 DESC
SELECT x.time FROM (SELECT time, temp FROM jfk ORDER BY time DESC LIMIT 10) x WHERE x.temp > 0 ORDER BY x.time
SELECT time, temp FROM jfk ORDER BY temp DESC NULLS LAST, time LIMIT 5
SELECT time FROM jfk ORDER BY time DESC, temp LIMIT 3
SELECT time FROM jfk WHERE time >= '2013-12-30' ORDER BY time DESC OFFSET 3 LIMIT 4
SELECT CASE WHEN temp > 80 THEN 'hot' ELSE 'not' END AS how, count(*) FROM jfk GROUP BY 1 ORDER BY 1
SELECT date_trunc('day', time) AS d, avg(temp) AS a FROM jfk GROUP BY d ORDER BY d DESC LIMIT 5
SELECT date_trunc('day', time) AS d, wind_dir, count(*) FROM jfk WHERE time < '2013-01-05' GROUP BY d, wind_dir ORDER BY d DESC, wind_dir
SELECT DISTINCT date_trunc('week', time) AS w FROM jfk ORDER BY w DESC NULLS FIRST
SELECT date_trunc('minute', time) AS m, time FROM jfk ORDER BY date_trunc('minute', time), time DESC LIMIT 5
SELECT date_trunc('day', time) AS d, date_trunc('hour', time) AS h, count(*) FROM jfk WHERE time < '2013-01-04' GROUP BY d, h ORDER BY d, h
SELECT count(*) FROM jfk WHERE date_trunc('day', time) = '2013-07-04'
SELECT d, count(*) FROM (SELECT date_trunc('day', time) AS d FROM jfk) x GROUP BY d ORDER BY 2, 1 LIMIT 5
SELECT date_trunc('day', a.time) AS d, avg(a.temp - b.temp) AS x FROM jfk a JOIN lga b ON a.time = b.time WHERE a.time < '2013-01-10' GROUP BY d ORDER BY d
SELECT date_trunc('day', b.time) AS d, count(*) FROM jfk a LEFT JOIN ewr b ON b.time = a.time AND b.time < '2013-01-03' GROUP BY d ORDER BY d NULLS FIRST
SELECT date_trunc('day', time) AS d, max(temp) AS m, rank() OVER (ORDER BY max(temp) DESC, date_trunc('day', time)) AS r FROM jfk GROUP BY d ORDER BY r LIMIT 5
SELECT count(*), min(time), max(time), max(time) - min(time) AS span, min(_id) AS first, max(_id) AS last FROM jfk
SELECT count(*) AS n, min(time), max(_id) FROM jfk WHERE time >= '2013-03-01' AND time < '2013-12-15 10:30'
SELECT count(time), count(_id) AS ids FROM lga j WHERE j.time BETWEEN '2013-11-20' AND '2013-12-10' AND '2013-12-01' > time
SELECT count(*) FROM jfk WHERE time > '2013-06-01' AND time < '2013-05-01'
SELECT count(*), max(time) FROM jfk WHERE time = '2013-07-04 12:00:00+00' OR time < '2013-01-02'
SELECT name, (SELECT count(*) FROM jfk WHERE time < opened) AS before FROM airports ORDER BY name
SELECT count(*) FROM jfk WHERE time > NULL
