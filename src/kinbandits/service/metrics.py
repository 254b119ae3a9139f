"""Counters for Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from kinbandits.service.engine import Engine
from kinbandits.service.shadow_states import shadow_states

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
DECIDING = "POST /v1/decisions"
_LATENCY = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class EngineCollector(Collector):
    """What the engine knows, read when asked."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def collect(self) -> Iterable[Metric]:
        """Current values."""
        engine = self._engine
        learner = engine.learner
        decisions = GaugeMetricFamily("kinbandits_decisions", "Decisions by state.", labels=["state"])
        for state, n in learner.state.states.items():
            decisions.add_metric([state], n)
        yield decisions
        rewards = CounterMetricFamily(
            "kinbandits_rewards_refused", "Rewards that changed nothing, by why.", labels=["why"]
        )
        for why, n in engine.store.counters().items():
            rewards.add_metric([why], n)
        yield rewards
        yield GaugeMetricFamily("kinbandits_events", "Events in the log.", engine.store.last_seq())
        yield GaugeMetricFamily("kinbandits_model_events", "Events the model has taken in.", engine.serving.seq)
        yield GaugeMetricFamily(
            "kinbandits_model_observations", "Rows the model has learned.", engine.serving.policy.n_observations
        )
        follower = engine.follower
        yield GaugeMetricFamily(
            "kinbandits_behind_seconds",
            "How long the oldest event waits that the serving model does not know.",
            follower.behind_seconds,
        )
        yield GaugeMetricFamily("kinbandits_learn_seconds", "Last slice of learning.", follower.slice_seconds)
        yield GaugeMetricFamily("kinbandits_publish_seconds", "Last copy of the model.", follower.publish_seconds)
        yield GaugeMetricFamily("kinbandits_snapshot_seconds", "Last snapshot.", follower.keeper.seconds)
        yield GaugeMetricFamily("kinbandits_snapshot_bytes", "Size of the last snapshot.", follower.keeper.bytes)
        yield GaugeMetricFamily("kinbandits_rows_refused", "Rows the model would not learn.", learner.refused)
        yield GaugeMetricFamily("kinbandits_waiting_requests", "Requests that wait to be written.", engine.waiting)
        yield GaugeMetricFamily("kinbandits_ready", "Whether requests are taken.", float(engine.ready))
        told = "Reward a round of a shadow, or of what was served in the same rounds, with its 95 % interval."
        values = GaugeMetricFamily("kinbandits_shadow_value", told, labels=["shadow", "of", "end"])
        for shadow in shadow_states(engine):
            for of, value in (("shadow", shadow.value), ("served", shadow.served)):
                for end in ("low", "value", "high") if value is not None else ():
                    values.add_metric([shadow.name, of, end], getattr(value, end))
        yield values


class Metrics(Collector):
    """The registry of one app."""

    def __init__(self, engine: Engine) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(EngineCollector(engine))
        self.registry.register(self)
        self._answers: Counter[tuple[str, int]] = Counter()  # by route and status
        self._buckets: dict[str, list[int]] = defaultdict(lambda: [0] * (len(_LATENCY) + 1))  # by route
        self._seconds: dict[str, float] = defaultdict(float)
        self._recent: deque[float] = deque(maxlen=2000)  # seconds of the last decisions

    def observe(self, route: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._answers[route, status] += 1
        self._buckets[route][bisect_left(_LATENCY, seconds)] += 1
        self._seconds[route] += seconds
        if route == DECIDING and status == 200:
            self._recent.append(seconds)

    def collect(self) -> Iterable[Metric]:
        """What was observed."""
        requests = CounterMetricFamily(
            "kinbandits_http_requests", "Requests by route and status.", labels=["route", "status"]
        )
        for (route, status), n in self._answers.copy().items():
            requests.add_metric([route, str(status)], n)
        yield requests
        latency = HistogramMetricFamily("kinbandits_http_seconds", "Time to answer, by route.", labels=["route"])
        ends = [*map(str, _LATENCY), "+Inf"]
        for route, counts in self._buckets.copy().items():
            latency.add_metric([route], list(zip(ends, accumulate(counts), strict=True)), self._seconds[route])
        yield latency

    def latency(self) -> tuple[float, float] | None:
        """Median and 99 % quantile of the last decisions, in seconds; None if there were none."""
        found = sorted(self._recent.copy())
        return (found[len(found) // 2], found[int(0.99 * len(found))]) if found else None

    def text(self) -> bytes:
        """In Prometheus' own format."""
        return generate_latest(self.registry)
