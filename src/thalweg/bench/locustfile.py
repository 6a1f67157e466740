"""The SOS study's consumers as a file for Locust, for people who use that.

The bench itself does without Locust: its packages (some 40, gevent and Flask among them) would be there for a loop of
thirty lines, and on a machine shared with the server its generator costs several times as much per request. The file
has the same weights, pauses, periods and judgement of answers.
"""

from __future__ import annotations

import pprint
from typing import Final

from thalweg.bench.profiles import CONSUMER_PERIOD_S, PROFILES, Mix
from thalweg.bench.sos import OM10, SENSORML, Service

_FILE: Final = '''"""Consumers of the SOS performance study, network {network}.

Run: locust -f FILE --host {host} --users 100
Made by: thalweg bench locustfile. Needs Locust (pip install locust).
"""

import random
from datetime import datetime, timedelta, timezone

from locust import FastHttpUser, between, task

PATH = {path!r}
PERIOD_S = {period}
SENSORS = {sensors}
"""(procedure, offering, observed properties, begin and end of observations, seconds since 1970)"""


def instant(seconds):
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class Consumer(FastHttpUser):
    wait_time = between({shortest}, {longest})

    def ask(self, name, **query):
        params = {{"service": "SOS", "version": "1.0.0", **query}}
        with self.client.get(PATH, params=params, name=name, catch_response=True) as response:
            # Exception reports come with any status, also with 200.
            if response.content and b"ExceptionReport" in response.content[:2000]:
                response.failure("exception report")

    def on_start(self):
        self.capabilities()

    @task({gc})
    def capabilities(self):
        self.ask("GC", request="GetCapabilities")

    @task({ds})
    def describe(self):
        procedure = random.choice(SENSORS)[0]
        self.ask("DS", request="DescribeSensor", procedure=procedure, outputFormat={sensorml!r})

    @task({go})
    def observations(self):
        procedure, offering, properties, begin, end = random.choice(SENSORS)
        latest = max(begin, end - PERIOD_S)
        start = begin + random.randint(0, latest - begin) // 60 * 60
        self.ask(
            "GO",
            request="GetObservation",
            offering=offering,
            procedure=procedure,
            observedProperty=",".join(properties),
            eventTime=f"{{instant(start)}}/{{instant(start + PERIOD_S)}}",
            responseFormat={om10!r},
        )
'''


def locustfile(service: Service, network: str, host: str) -> str:
    """The text of the file for a network that was read out of capabilities."""
    load = PROFILES["sos-study"].load
    if not isinstance(load, Mix):
        raise TypeError("the study's profile has users")
    sensors = [
        (s.procedure, s.offering, s.properties, s.begin_us // 1_000_000, s.end_us // 1_000_000) for s in service.sensors
    ]
    return _FILE.format(
        network=network, host=host, path=service.path.rstrip("?&"), period=CONSUMER_PERIOD_S[network],
        sensors=pprint.pformat(sensors, width=118), shortest=load.think_s[0], longest=load.think_s[1],
        gc=load.weights["GC"], ds=load.weights["DS"], go=load.weights["GO"], sensorml=SENSORML["1.0.0"], om10=OM10,
    )  # fmt: skip
