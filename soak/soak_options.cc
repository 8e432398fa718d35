// What a soak run draws: larger and more varied than the runs of the property test.
//
// A run is soft or hard. In a soft one all outages together are shorter than the patience of every peer, so
// that nothing may fail. In a hard one they may last longer: queue pairs may fail by silence, and their
// applications make new ones.
#include <algorithm>
#include <array>
#include <cmath>

#include "soak/options.h"

namespace mroce::soak {

namespace {

constexpr Nanos kPatience = millis(2500);  // what all outages of a soft run last at most
constexpr uint64_t kEngineSalt = 0x736f616b656e6769ULL;

template <class T, size_t N>
T one_of(Rng& rng, const std::array<T, N>& values) {
  return values[rng.below(N)];
}

// Small values as often as large ones.
uint64_t by_magnitude(Rng& rng, uint64_t low, uint64_t high) {
  const double exponent = rng.uniform() * std::log(static_cast<double>(high) / static_cast<double>(low));
  return std::min(high, static_cast<uint64_t>(static_cast<double>(low) * std::exp(exponent)));
}

Nanos time_by_magnitude(Rng& rng, Nanos low, Nanos high) {
  return Nanos{static_cast<int64_t>(
      by_magnitude(rng, static_cast<uint64_t>(low.count()), static_cast<uint64_t>(high.count())))};
}

uint32_t some(Rng& rng, double probability, uint64_t most) {
  return rng.chance(probability) ? static_cast<uint32_t>(rng.between(1, most)) : 0;
}

void draw_shape(Rng& rng, RunOptions& o) {
  o.endpoints = static_cast<uint32_t>(rng.chance(0.4) ? 2 : rng.between(3, 8));
  o.sharing = static_cast<uint32_t>(rng.chance(0.6) ? 1 : rng.between(2, 4));
  o.links = static_cast<uint32_t>(by_magnitude(rng, 2, 32));
  o.planes = static_cast<uint32_t>(rng.chance(0.4) ? 1 : rng.between(2, 4));
  o.paths = static_cast<uint32_t>(rng.between(1, 8));
  o.spread = rng.chance(0.5) ? 1 + 5 * rng.uniform() : 0;
  o.faults.latency = time_by_magnitude(rng, micros(1), o.spread > 1 ? micros(500) : millis(10));
  if (rng.chance(0.4)) {
    o.faults.rate_bps = by_magnitude(rng, 100, 20000) * 1000000;
    o.faults.queue_bytes = by_magnitude(rng, 20000, 500000);
    if (rng.chance(0.5)) o.faults.ce_above_bytes = o.faults.queue_bytes / 3;
  }
  if (rng.chance(0.4)) o.port_rate_bps = by_magnitude(rng, 200, 40000) * 1000000;
  o.coalesce = rng.chance(0.8);
  o.read_buffer_bytes = by_magnitude(rng, 30000, 1 << 20);
  if (rng.chance(0.1)) o.read_rate_bps = by_magnitude(rng, 100, 5000) * 1000000;
}

void draw_work(Rng& rng, RunOptions& o) {
  o.operations = static_cast<uint32_t>(by_magnitude(rng, 40, 600));
  o.largest = one_of(rng, std::array<uint32_t, 6>{200, 5000, 20000, 100000, 300000, 1 << 20});
  o.bytes = by_magnitude(rng, 4 << 20, 128 << 20);
  o.span = time_by_magnitude(rng, millis(10), seconds(2));
  o.longest_work = o.span * 3 + seconds(1);
  // So that posting takes about as long as the faults.
  const double us = static_cast<double>(o.span.count()) / 1000;
  o.pace_us =
      static_cast<uint32_t>(std::clamp(us * 5 / o.operations * (0.2 + rng.uniform()), 20.0, 100000.0));
  o.to_itself = rng.chance(0.05);
  o.shared_cqs = rng.chance(0.3);
  o.shared_receives = rng.chance(0.35);
  o.by_events = rng.chance(0.3);
  o.flaws = rng.chance(0.2);
  o.destroys = rng.chance(0.3);
  o.slow_receives = rng.chance(0.4);
  o.near_wrap = rng.chance(0.1);
  o.one_hour = rng.chance(0.02);
  o.goodbye = rng.chance(0.7);
  o.solicited = o.by_events && rng.chance(0.5);
  o.drains = rng.chance(0.25);
  o.reregisters = rng.chance(0.25);
  o.lazy = !o.by_events && rng.chance(0.15);
  o.resizes = !o.lazy && rng.chance(0.25);
  o.relaxed = rng.chance(0.2);
  o.meetings = true;
  o.max_send_wr = one_of(rng, std::array<uint32_t, 4>{1, 8, 64, 256});
  o.max_recv_wr = one_of(rng, std::array<uint32_t, 4>{1, 4, 32, 128});
  o.max_sge = static_cast<uint32_t>(rng.between(1, 4));
  o.max_inline = one_of(rng, std::array<uint32_t, 4>{0, 32, 256, 1024});
  o.rd_atomic = one_of(rng, std::array<uint8_t, 4>{1, 2, 5, 16});
  if (rng.chance(0.05)) o.rnr_retry = static_cast<uint8_t>(rng.below(7));
  if (!rng.chance(0.1)) return;
  o.shared_receives = false;  // see "What it does not do" in the property test's README
  o.slow_receives = true;
  o.overcommit = static_cast<uint32_t>(rng.between(1, 5));
  o.min_rnr_timer = static_cast<uint8_t>(rng.between(1, 16));
}

void draw_weather(Rng& rng, RunOptions& o) {
  Faults& f = o.faults;
  if (rng.chance(0.6)) f.loss = rng.uniform() * (rng.chance(0.3) ? 0.3 : 0.03);
  if (rng.chance(0.25)) {
    f.burst_loss = rng.uniform() * 0.01;
    f.burst_length = time_by_magnitude(rng, micros(10), millis(2));
  }
  if (rng.chance(0.3)) f.jitter = time_by_magnitude(rng, micros(1), micros(500));
  if (rng.chance(0.3)) {
    f.reorder = rng.uniform() * 0.3;
    f.reorder_delay = time_by_magnitude(rng, micros(10), millis(3));
  }
  if (rng.chance(0.3)) {
    f.duplicate = rng.uniform() * 0.2;
    f.duplicate_after = time_by_magnitude(rng, micros(1), millis(3));
  }
  if (rng.chance(0.3)) {
    f.late_duplicate = rng.uniform() * 0.05;
    f.late_duplicate_after = time_by_magnitude(rng, millis(5), seconds(3));
  }
  if (rng.chance(0.2)) f.corrupt = rng.uniform() * 0.05;
  if (rng.chance(0.2)) f.truncate = rng.uniform() * 0.05;
  if (rng.chance(0.2)) f.ce = rng.uniform();
  if (!o.one_hour) return;
  f.late_duplicate = 0.05;
  f.late_duplicate_after = seconds(3600);
}

void draw_incidents(Rng& rng, RunOptions& o) {
  o.path_outages = some(rng, 0.2, 4);
  o.dead_paths = some(rng, 0.3, 6);
  o.blackouts = some(rng, 0.15, 2);
  o.cuts = some(rng, 0.3, 6);
  o.clogs = some(rng, 0.3, 6);
  o.storms = some(rng, 0.5, 10);
  o.cut_links = some(rng, 0.25, 4);
  o.silent_links = some(rng, 0.2, 3);
  o.freezes = some(rng, 0.3, 6);
  o.clock_jumps = some(rng, 0.2, 3);
  o.slow_reads = some(rng, 0.3, 4);
  o.hard = rng.chance(0.35);
  if (o.hard || o.destroys) o.crashes = some(rng, 0.5, 3);
  if (o.hard) {
    o.longest_outage = time_by_magnitude(rng, millis(1), seconds(12));
    return;
  }
  const uint32_t outages = o.path_outages + o.dead_paths + o.blackouts + o.cuts + o.clogs + o.cut_links +
                           o.silent_links + o.freezes + o.clock_jumps;
  const Nanos most = kPatience / std::max(outages, 1u);
  o.longest_outage = time_by_magnitude(rng, micros(100), std::max<Nanos>(most, micros(200)));
}

}  // namespace

RunOptions draw_soak_options(uint64_t seed) {
  RunOptions o;
  o.seed = seed;
  Rng rng(seed * 2 + 1);
  o.varied = true;
  draw_shape(rng, o);
  draw_work(rng, o);
  draw_weather(rng, o);
  draw_incidents(rng, o);
  o.tail_hold = rng.chance(0.85);
  o.max_payload = one_of(rng, std::array<uint32_t, 5>{512, 1024, 2048, 4096, 4096});
  o.encrypted = rng.chance(0.25) && o.overcommit == 0;  // as in draw_options()
  return o;
}

EngineOptions draw_engine_options(const RunOptions& o, uint32_t index) {
  Rng rng((o.seed + kEngineSalt) * 16 + index);
  EngineOptions e;
  e.planes = static_cast<uint32_t>(rng.chance(0.7) ? o.planes : rng.between(1, o.planes));
  e.link_mtu = one_of(rng, std::array<uint32_t, 4>{1500, 4200, 9000, 9000});
  e.clock_ahead = Nanos{static_cast<int64_t>(rng.below(uint64_t{1} << 55))};
  EngineConfig& c = e.config;
  c.max_paths = static_cast<uint32_t>(rng.chance(0.7) ? o.paths : rng.between(1, o.paths));
  c.max_planes = static_cast<uint32_t>(rng.chance(0.8) ? 8 : rng.between(1, 8));
  c.max_payload = rng.chance(0.7) ? o.max_payload : static_cast<uint32_t>(rng.between(16, 128) * 32);
  c.cpsn_window = static_cast<uint32_t>(by_magnitude(rng, 64, 20000));
  c.window_bytes = static_cast<uint32_t>(by_magnitude(rng, 8192, 4 << 20));
  c.receive_buffer_bytes = static_cast<uint32_t>(by_magnitude(rng, 1 << 16, 4 << 20));
  c.initial_window = static_cast<uint32_t>(by_magnitude(rng, 1, 64));
  c.max_burst_bytes = static_cast<uint32_t>(by_magnitude(rng, 1000, kMaxBurstBytes));
  c.ack_every = static_cast<uint32_t>(by_magnitude(rng, 1, 64));
  c.block_repeats = static_cast<uint8_t>(rng.below(5));
  c.ack_delay = time_by_magnitude(rng, micros(1), micros(500));
  c.ack_request_delay = micros(static_cast<int64_t>(rng.below(20)));
  c.pto_min = time_by_magnitude(rng, micros(200), millis(10));
  c.pto_max = time_by_magnitude(rng, millis(20), millis(200));
  c.reo_min = time_by_magnitude(rng, micros(10), millis(1));
  c.delay_gate = time_by_magnitude(rng, micros(100), millis(5));
  c.probe_max = time_by_magnitude(rng, millis(100), millis(400));
  c.silence_limit = millis(static_cast<int64_t>(o.hard ? rng.between(2000, 8000) : rng.between(5000, 8000)));
  c.keepalive = millis(static_cast<int64_t>(rng.between(3000, 10000)));
  c.close_linger = time_by_magnitude(rng, millis(200), millis(1500));
  c.drain_limit = time_by_magnitude(rng, millis(20), millis(500));
  c.degraded_paths = rng.chance(0.4);
  c.rate_hints = rng.chance(0.4);
  c.ecn = rng.chance(0.7);
  c.tail_hold = o.tail_hold;
  c.held_bytes = one_of(rng, std::array<uint32_t, 5>{0, 5000, 100000, 4 << 20, 4 << 20});
  c.max_rd_atomic = 16;
  return e;
}

}  // namespace mroce::soak
