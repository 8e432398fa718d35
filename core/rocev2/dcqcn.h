// DCQCN, the reaction point: the rate at which a queue pair may send.
//
// Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, in the two forms that
// people actually compare with:
//
//   kHpccSim   as the ns-3 model published with HPCC (Li et al., SIGCOMM 2019) has it. The first CNP starts
//   two
//              periodic clocks: alpha is updated each `alpha_period` (alpha = (1-g) alpha, plus g if a CNP
//              came since the last update), the rate is cut each `decrease_period` if a CNP came. Only time
//              brings the rate up; there is no byte counter.
//   kMlx       as firmware describes its parameters: alpha is a fraction of 1024 in fixed point, a CNP cuts
//   at
//              once unless the last cut is less than `decrease_period` ago (then at its end), no cut goes
//              below `min_dec_fac` of the rate before it, and a byte counter raises as the clock does.
//
// Both: a cut sets Rt = Rc (always with clamp_target; otherwise only if the clock has raised the rate since
// the last cut) and Rc = Rc (1 - alpha/2). An increase with its stage counted from 0: below `threshold` fast
// recovery, Rc = (Rc+Rt)/2; at it Rt += ai first; above it Rt += hai first. With a byte counter, both stages
// must be below for recovery and both above for hyper increase.
//
// Rates are double, in bit/s; the state depends on nothing but its arguments. Alpha is brought up to date
// only when somebody needs it, so that an idle microsecond costs nothing.
#pragma once

#include <cstdint>

#include "core/base/time.h"

namespace mroce::rocev2 {

struct DcqcnConfig {
  enum class Flavour : uint8_t { kHpccSim, kMlx };

  bool enabled = true;
  Flavour flavour = Flavour::kHpccSim;
  double initial_rate_bps = 0;  // 0: line rate
  double min_rate_bps = 100e6;
  double ai_bps = 5e6;                // rate_ai, rpg_ai_rate
  double hai_bps = 50e6;              // rate_hai, rpg_hai_rate
  bool scale_with_line = false;       // ai and hai are meant at 25 Gbit/s and grow with the line rate
  uint32_t threshold = 1;             // F: stages of fast recovery
  Nanos time_reset = micros(300);     // clock between increases
  uint64_t byte_reset = 0;            // bytes between increases by the byte counter; 0: none
  double g = 1.0 / 256;               // weight of alpha, kHpccSim
  uint32_t alpha_keep = 1019;         // dce_tcp_g of kMlx: alpha = alpha * alpha_keep / 1024
  Nanos alpha_period = micros(1);     // alpha resume interval, dce_tcp_rtt
  Nanos decrease_period = micros(4);  // rate decrease interval, rate reduce monitor period
  double initial_alpha = 1.0;         // kMlx: 1023/1024 at most
  double min_dec_fac = 0;             // kMlx: a cut keeps at least this part of the rate
  double first_cnp_factor = 1.0;      // the first CNP multiplies the rate by this
  bool clamp_target = false;          // clamp_tgt_rate
  bool clamp_target_after_time_inc = true;
};

class Dcqcn {
 public:
  // A queue pair that begins below line rate climbs from `now` on as if it had been cut there.
  Dcqcn(const DcqcnConfig& config, double line_rate_bps, Time now);

  double rate_bps() const { return rate_; }
  double target_bps() const { return target_; }
  double alpha(Time now);
  uint32_t time_stage() const { return time_stage_; }
  bool throttled() const { return rate_ < line_; }
  // The next point in time for on_timer(); kNever while nothing would change.
  Time deadline() const { return decrease_at_ < increase_at_ ? decrease_at_ : increase_at_; }

  void on_cnp(Time now);
  void on_timer(Time now);
  void on_sent(uint32_t bytes) {
    if (bytes_left_ != 0) count_bytes(bytes);
  }

 private:
  static constexpr double kFixedOne = 1024;
  static constexpr uint32_t kFixedMax = 1023;

  void catch_up_alpha(Time now);
  void step_alpha(uint64_t updates);
  void cut(Time now);
  void increase();
  void count_bytes(uint32_t bytes);

  const DcqcnConfig* config_;  // of the engine, which outlives this
  double line_;
  double rate_;
  double target_;
  double ai_;
  double hai_;
  double alpha_;          // kHpccSim
  uint32_t alpha_fixed_;  // kMlx, 0..1023
  uint32_t time_stage_ = 0;
  uint32_t byte_stage_ = 0;
  uint64_t bytes_left_ = 0;  // to the byte counter's next event; 0: it does not run
  Time alpha_next_ = kNever;
  Time period_start_{};  // of the cuts' period
  Time decrease_at_ = kNever;
  Time increase_at_ = kNever;
  bool started_ = false;
  bool cnp_for_alpha_ = false;
};

}  // namespace mroce::rocev2
