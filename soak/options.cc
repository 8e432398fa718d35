#include "soak/options.h"

#include <fmt/format.h>

#include <array>

namespace mroce::soak {

namespace {

template <size_t N>
uint32_t one_of(Rng& rng, const std::array<uint32_t, N>& values) {
  return values[rng.below(N)];
}

void draw_engine(Rng& rng, RunOptions& o) {
  o.planes = static_cast<uint32_t>(rng.chance(0.6) ? 1 : rng.between(2, 4));
  o.paths = static_cast<uint32_t>(rng.between(1, 8));
  o.max_payload = one_of(rng, std::array<uint32_t, 6>{512, 800, 1024, 1408, 4096, 4096});
  o.cpsn_window = one_of(rng, std::array<uint32_t, 5>{64, 100, 512, 4096, 16384});
  o.window_bytes = one_of(rng, std::array<uint32_t, 5>{8192, 20000, 65536, 262144, 1 << 20});
  o.initial_window = one_of(rng, std::array<uint32_t, 4>{1, 4, 32, 64});
  o.ack_every = one_of(rng, std::array<uint32_t, 4>{1, 4, 16, 64});
  o.held_bytes = one_of(rng, std::array<uint32_t, 4>{0, 5000, 100000, 4 << 20});
  o.tail_hold = rng.chance(0.85);
  o.ecn = rng.chance(0.7);
  if (rng.chance(0.1)) {
    o.read_rate_bps = rng.between(100, 2000) * 1000000;
    o.read_buffer_bytes = rng.between(20000, 300000);
  }
  o.max_send_wr = one_of(rng, std::array<uint32_t, 4>{1, 4, 32, 128});
  o.max_recv_wr = one_of(rng, std::array<uint32_t, 4>{1, 3, 16, 100});
  o.max_sge = static_cast<uint32_t>(rng.between(1, 4));
  o.max_inline = one_of(rng, std::array<uint32_t, 4>{0, 32, 256, 1024});
  o.rd_atomic = static_cast<uint8_t>(one_of(rng, std::array<uint32_t, 4>{1, 2, 5, 16}));
}

void draw_faults(Rng& rng, RunOptions& o) {
  Faults& f = o.faults;
  f.latency = micros(static_cast<int64_t>(rng.between(1, rng.chance(0.2) ? 5000 : 100)));
  if (rng.chance(0.15)) return;  // a perfect network
  if (rng.chance(0.6)) f.loss = rng.uniform() * (rng.chance(0.5) ? 0.3 : 0.03);
  if (rng.chance(0.2)) {
    f.burst_loss = rng.uniform() * 0.02;
    f.burst_length = micros(static_cast<int64_t>(rng.between(10, 2000)));
  }
  if (rng.chance(0.3)) f.jitter = micros(static_cast<int64_t>(rng.between(1, 200)));
  if (rng.chance(0.3)) {
    f.reorder = rng.uniform() * 0.3;
    f.reorder_delay = micros(static_cast<int64_t>(rng.between(10, 3000)));
  }
  if (rng.chance(0.3)) {
    f.duplicate = rng.uniform() * 0.3;
    f.duplicate_after = micros(static_cast<int64_t>(rng.below(3000)));
  }
  if (rng.chance(0.3)) {
    f.late_duplicate = rng.uniform() * 0.1;
    f.late_duplicate_after = millis(static_cast<int64_t>(rng.between(5, 3000)));
  }
  if (rng.chance(0.2)) f.corrupt = rng.uniform() * 0.05;
  if (rng.chance(0.2)) f.ce = rng.uniform();
  if (rng.chance(0.2)) {
    f.rate_bps = rng.between(50, 5000) * 1000000;
    f.queue_bytes = rng.between(10000, 500000);
    if (rng.chance(0.5)) f.ce_above_bytes = f.queue_bytes / 3;
  }
  if (rng.chance(0.25)) o.path_outages = static_cast<uint32_t>(rng.between(1, 4));
  if (rng.chance(0.15)) o.blackouts = static_cast<uint32_t>(rng.between(1, 2));
  if (rng.chance(0.15)) o.cut_links = static_cast<uint32_t>(rng.between(1, 3));
  if (rng.chance(0.15)) o.freezes = static_cast<uint32_t>(rng.between(1, 3));
  o.longest_outage = millis(static_cast<int64_t>(rng.between(1, rng.chance(0.3) ? 1000 : 50)));
}

// What came later is drawn last, so that old seeds keep their meaning as far as possible.
void draw_more(Rng& rng, RunOptions& o) {
  o.solicited = rng.chance(0.5) && o.by_events;
  o.drains = rng.chance(0.25);
  o.reregisters = rng.chance(0.25);
  o.lazy = rng.chance(o.destroys ? 0.5 : 0.1) && !o.by_events;
  o.resizes = rng.chance(0.25) && !o.lazy;
  if (rng.chance(0.05)) o.rnr_retry = static_cast<uint8_t>(rng.below(7));
  if (!rng.chance(0.15)) return;
  // Receives of an SRQ are granted on demand only: who believes to have credit would never ask.
  o.shared_receives = false;
  o.slow_receives = true;
  o.overcommit = static_cast<uint32_t>(rng.between(1, 5));
  o.min_rnr_timer = static_cast<uint8_t>(rng.between(1, 16));
  if (rng.chance(0.25)) o.rnr_retry = static_cast<uint8_t>(rng.below(7));
}

}  // namespace

RunOptions draw_options(uint64_t seed) {
  RunOptions o;
  o.seed = seed;
  Rng rng(seed * 2 + 1);
  o.endpoints = rng.chance(0.7) ? 2 : 3;
  o.links = static_cast<uint32_t>(rng.chance(0.5) ? rng.between(1, 3) : rng.between(1, 12));
  o.operations = static_cast<uint32_t>(rng.between(1, o.links > 4 ? 20 : 60));
  o.largest = one_of(rng, std::array<uint32_t, 5>{200, 5000, 20000, 100000, 300000});
  o.to_itself = rng.chance(0.05);
  o.shared_cqs = rng.chance(0.3);
  o.shared_receives = rng.chance(0.35);
  o.by_events = rng.chance(0.3);
  o.flaws = rng.chance(0.3);
  o.destroys = rng.chance(0.25);
  o.slow_receives = rng.chance(0.4);
  o.near_wrap = rng.chance(0.1);
  o.one_hour = rng.chance(0.03);
  o.goodbye = rng.chance(0.5);
  if (o.destroys && rng.chance(0.3)) o.crashes = static_cast<uint32_t>(rng.between(1, 2));
  draw_engine(rng, o);
  draw_faults(rng, o);
  if (o.one_hour) {
    o.faults.late_duplicate = 0.1;
    o.faults.late_duplicate_after = seconds(3600);
  }
  o.coalesce = rng.chance(0.8);
  draw_more(rng, o);
  // Who grants more credit than there is does so by changing ACKs on the way.
  o.encrypted = rng.chance(0.25) && o.overcommit == 0;
  return o;
}

uint64_t seed_near_wrap(Rng& rng, uint32_t distance) {
  for (;;) {
    const uint64_t seed = rng.next();
    Rng engine(seed);
    for (int draw = 0; draw < 3; ++draw) engine.next();  // keys, first stream, connection id
    for (int draw = 0; draw < 2; ++draw) {               // first CPSN, first PSEQ
      if (static_cast<uint32_t>(engine.next()) > UINT32_MAX - distance) return seed;
    }
  }
}

}  // namespace mroce::soak
