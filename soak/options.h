// RunOptions: everything that a random run draws before it begins, from its seed alone.
//
// There are two ways to draw. draw_options() is for the property test: small runs of two or three endpoints
// with one configuration. draw_soak_options() is for the soak: up to eight endpoints, each with its own
// configuration, on a network of its own shape, under faults that come and go for as long as there is work.
// Both give the same struct, and one run understands it. Each member has a name, by which it is printed and
// can be set again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "core/base/rng.h"
#include "core/base/time.h"
#include "core/mroce/config.h"
#include "soak/world/faults.h"

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

  // ---- what the soak draws besides; with these defaults it has no effect
  uint32_t sharing = 0;             // endpoints on one host; 0: each its own, in a random slot
  bool varied = false;              // each endpoint has a configuration of its own: see draw_engine_options()
  double spread = 0;                // ways have up to so many times more latency and less rate
  uint64_t port_rate_bps = 0;       // of each network interface, with a queue in each direction
  uint32_t pace_us = 0;             // most time between doings of the applications; 0: drawn
  uint64_t bytes = 2 << 20;         // of all messages together
  Nanos span = millis(30);          // faults begin within this time
  Nanos longest_work = seconds(3);  // then faults end even if there is work left
  bool hard = false;      // outages may last longer than peers wait: queue pairs may fail, and are made anew
  bool relaxed = false;   // some queue pairs do not hold tails
  bool meetings = false;  // at the end every endpoint works with every other
  uint32_t clogs = 0;     // times that a way has almost no rate
  uint32_t cuts = 0;      // times that two endpoints do not reach each other, in one direction or both
  uint32_t dead_paths = 0;    // times that one path between two endpoints is silent
  uint32_t storms = 0;        // times that a way loses, reorders, doubles, changes or shortens datagrams
  uint32_t silent_links = 0;  // times that a port loses its link without an event
  uint32_t clock_jumps = 0;
  uint32_t slow_reads = 0;  // times that an endpoint reads slowly
};

// Calls visit(name, member) for each of them; `Options` is RunOptions or const RunOptions.
template <class Options, class Visit>
void each_option(Options& o, const Visit& visit) {
  visit("endpoints", o.endpoints);
  visit("sharing", o.sharing);
  visit("links", o.links);
  visit("operations", o.operations);
  visit("largest", o.largest);
  visit("bytes", o.bytes);
  visit("span", o.span);
  visit("longest_work", o.longest_work);
  visit("pace_us", o.pace_us);
  visit("to_itself", o.to_itself);
  visit("shared_cqs", o.shared_cqs);
  visit("shared_receives", o.shared_receives);
  visit("by_events", o.by_events);
  visit("flaws", o.flaws);
  visit("destroys", o.destroys);
  visit("slow_receives", o.slow_receives);
  visit("near_wrap", o.near_wrap);
  visit("one_hour", o.one_hour);
  visit("goodbye", o.goodbye);
  visit("solicited", o.solicited);
  visit("drains", o.drains);
  visit("reregisters", o.reregisters);
  visit("lazy", o.lazy);
  visit("resizes", o.resizes);
  visit("overcommit", o.overcommit);
  visit("encrypted", o.encrypted);
  visit("hard", o.hard);
  visit("relaxed", o.relaxed);
  visit("meetings", o.meetings);
  visit("varied", o.varied);
  visit("planes", o.planes);
  visit("paths", o.paths);
  visit("max_payload", o.max_payload);
  visit("cpsn_window", o.cpsn_window);
  visit("window_bytes", o.window_bytes);
  visit("initial_window", o.initial_window);
  visit("ack_every", o.ack_every);
  visit("held_bytes", o.held_bytes);
  visit("tail_hold", o.tail_hold);
  visit("ecn", o.ecn);
  visit("read_rate_bps", o.read_rate_bps);
  visit("read_buffer_bytes", o.read_buffer_bytes);
  visit("max_send_wr", o.max_send_wr);
  visit("max_recv_wr", o.max_recv_wr);
  visit("max_sge", o.max_sge);
  visit("max_inline", o.max_inline);
  visit("rd_atomic", o.rd_atomic);
  visit("rnr_retry", o.rnr_retry);
  visit("min_rnr_timer", o.min_rnr_timer);
  visit("latency", o.faults.latency);
  visit("spread", o.spread);
  visit("jitter", o.faults.jitter);
  visit("loss", o.faults.loss);
  visit("burst_loss", o.faults.burst_loss);
  visit("burst_length", o.faults.burst_length);
  visit("reorder", o.faults.reorder);
  visit("reorder_delay", o.faults.reorder_delay);
  visit("duplicate", o.faults.duplicate);
  visit("duplicate_after", o.faults.duplicate_after);
  visit("late_duplicate", o.faults.late_duplicate);
  visit("late_duplicate_after", o.faults.late_duplicate_after);
  visit("corrupt", o.faults.corrupt);
  visit("truncate", o.faults.truncate);
  visit("ce", o.faults.ce);
  visit("rate_bps", o.faults.rate_bps);
  visit("queue_bytes", o.faults.queue_bytes);
  visit("ce_above_bytes", o.faults.ce_above_bytes);
  visit("port_rate_bps", o.port_rate_bps);
  visit("coalesce", o.coalesce);
  visit("path_outages", o.path_outages);
  visit("blackouts", o.blackouts);
  visit("cut_links", o.cut_links);
  visit("silent_links", o.silent_links);
  visit("freezes", o.freezes);
  visit("crashes", o.crashes);
  visit("clogs", o.clogs);
  visit("cuts", o.cuts);
  visit("dead_paths", o.dead_paths);
  visit("storms", o.storms);
  visit("clock_jumps", o.clock_jumps);
  visit("slow_reads", o.slow_reads);
  visit("longest_outage", o.longest_outage);
}

RunOptions draw_options(uint64_t seed);
RunOptions draw_soak_options(uint64_t seed);

// What endpoint number `index` of a varied run changes in its configuration.
struct EngineOptions {
  uint32_t planes = 1;
  uint32_t link_mtu = 9000;
  Nanos clock_ahead{0};
  EngineConfig config;  // without identity, slot and ports
};
EngineOptions draw_engine_options(const RunOptions& options, uint32_t index);

std::string_view name_in(std::string_view assignment);

// "NAME=VALUE", as describe() prints it; an error is a sentence.
tl::expected<void, std::string> set_option(RunOptions& options, std::string_view assignment);
// The value of a member as text.
std::string option_text(const RunOptions& options, std::string_view name);
std::string describe(const RunOptions& options);

// An engine seed whose first connection begins its numbers (first CPSN or first PSEQ) less than `distance`
// before 2^32. It follows the order in which an Engine draws; near_wrap_seeds_work in property_test.cc checks
// that it still does.
uint64_t seed_near_wrap(Rng& rng, uint32_t distance);

}  // namespace mroce::soak
