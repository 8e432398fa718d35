// RunOptions: everything that a random run draws before it begins, from its seed alone.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/time.h"
#include "soak/world/network.h"

namespace mroce::soak {

struct RunOptions {
  uint64_t seed = 0;
  uint32_t endpoints = 2;
  uint32_t links = 1;            // pairs of queue pairs
  uint32_t operations = 20;      // of a flow, at most
  uint32_t largest = 300000;     // bytes of a message
  bool to_itself = false;        // a link may join an endpoint with itself
  bool shared_cqs = false;       // one CQ for everything of an endpoint
  bool shared_receives = false;  // SRQs
  bool by_events = false;        // completions are polled only after a notification
  bool flaws = false;            // operations that must fail
  bool destroys = false;         // queue pairs are destroyed and made anew under way
  bool slow_receives = false;    // receives are posted late
  bool near_wrap = false;        // first sequence numbers shortly before 2^32
  bool one_hour = false;         // duplicates that come an hour later, and an hour that passes
  bool goodbye = false;          // all endpoints shut down at the end
  bool solicited = false;        // with by_events: some CQs are armed for solicited completions only
  bool drains = false;           // queue pairs go to SQD and come back
  bool reregisters = false;      // regions get other keys, places and rights
  bool lazy = false;             // CQs are polled now and then only
  bool resizes = false;          // CQs change their capacity
  bool encrypted = false;        // mode 2, with keys that change all the time
  uint32_t overcommit = 0;       // credits that the network adds to all that a receiver grants: it makes RNR

  // Engine configuration, the same for all endpoints
  uint32_t planes = 1;
  uint32_t paths = 4;
  uint32_t max_payload = 4096;
  uint32_t cpsn_window = 16384;
  uint32_t window_bytes = 1 << 20;
  uint32_t initial_window = 32;
  uint32_t ack_every = 16;
  uint32_t held_bytes = 4 << 20;
  bool tail_hold = true;
  bool ecn = true;
  uint64_t read_rate_bps = 0;
  uint64_t read_buffer_bytes = 1 << 20;

  // Queue pairs
  uint32_t max_send_wr = 64;
  uint32_t max_recv_wr = 64;
  uint32_t max_sge = 4;
  uint32_t max_inline = 256;
  uint8_t rd_atomic = 16;
  uint8_t rnr_retry = 7;
  uint8_t min_rnr_timer = 12;

  // Network
  Faults faults;
  uint32_t path_outages = 0;  // times that one path is silent
  uint32_t blackouts = 0;     // times that everything is silent
  uint32_t cut_links = 0;     // times that a port loses its link, with link events
  uint32_t freezes = 0;       // times that an endpoint does not get the CPU
  uint32_t crashes = 0;       // times that an endpoint dies, and another takes its addresses
  Nanos longest_outage{0};
  bool coalesce = true;
};

RunOptions draw_options(uint64_t seed);
std::string describe(const RunOptions& options);

// An engine seed whose first connection begins its numbers (first CPSN or first PSEQ) less than `distance`
// before 2^32. It follows the order in which an Engine draws; near_wrap_seeds_work in property_test.cc checks
// that it still does.
uint64_t seed_near_wrap(Rng& rng, uint32_t distance);

}  // namespace mroce::soak
