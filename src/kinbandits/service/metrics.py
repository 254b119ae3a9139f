"""Counters for Prometheus."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kinbandits.service.engine import Engine

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
DECIDING = "POST /v1/decisions"
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class Metrics(Collector):
    """Requests, counted as they are answered; and the state of the engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.registry = CollectorRegistry()
        names = ["route", "status"]
        text = "Requests by route and status."
        self._requests = Counter("kinbandits_http_requests", text, names, registry=self.registry)
        text = "Time to answer, by route."
        self._seconds = Histogram("kinbandits_http_seconds", text, names[:1], registry=self.registry, buckets=_SECONDS)
        self._recent: deque[float] = deque(maxlen=2000)  # seconds of the last decisions
        self.registry.register(self)

    def observe(self, route: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._requests.labels(route, status).inc()
        self._seconds.labels(route).observe(seconds)
        if route == DECIDING and status == 200:
            self._recent.append(seconds)

    def latency(self) -> tuple[float, float] | None:
        """Median and 99 % quantile of the last decisions, in seconds; None if there were none."""
        found = sorted(self._recent.copy())
        return (found[len(found) // 2], found[int(0.99 * len(found))]) if found else None

    def collect(self) -> Iterable[Metric]:
        """What the engine knows."""
        engine, learner, writer = self._engine, self._engine.learner, self._engine.writer
        yield GaugeMetricFamily("kinbandits_ready", "Whether requests are taken.", float(engine.ready))
        if not hasattr(engine, "serving"):
            return
        serving = engine.serving
        decisions = GaugeMetricFamily("kinbandits_decisions", "Decisions by state.", labels=["state"])
        for state, n in serving.stats.states.items():
            decisions.add_metric([state], n)
        why = CounterMetricFamily("kinbandits_rewards_refused", "Rewards that changed nothing, by why.", labels=["why"])
        for name, n in writer.position.counters.items() if hasattr(writer, "position") else ():
            why.add_metric([name], n)
        yield from (decisions, why)
        gauges = [
            ("events", "Events in the log.", engine.last_seq),
            ("model_events", "Events that the serving model knows.", serving.seq),
            ("model_observations", "Rows the model has learned.", serving.policy.n_observations),
            ("rows_refused", "Rows the model could not learn.", serving.stats.refused),
            ("behind_seconds", "Age of the oldest event that the serving model does not know.", learner.behind()),
            ("publish_seconds", "Last copy of the model.", learner.publish_seconds),
            ("snapshot_seconds", "Last snapshot.", learner.save_seconds),
            ("waiting_requests", "Requests that wait to be written.", writer.waiting),
        ]
        sizes = engine.store.database.sizes()
        if sizes is not None:
            free = ("disk_free_bytes", "Free space beside the log.", sizes[1])
            gauges += [("log_bytes", "Size of the log.", sizes[0]), free]
        for name, text, value in gauges:
            yield GaugeMetricFamily(f"kinbandits_{name}", text, value)

    def text(self) -> bytes:
        """In Prometheus' own format."""
        return generate_latest(self.registry)
