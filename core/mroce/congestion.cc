// The window of a path: ECN-proportional decrease as in DCTCP (RFC 8257), additive increase, slow start.
//
// Loss alone is not congestion here: a lossy fabric loses packets for other reasons, and halving on each loss
// would give a third of the rate at 1 %. A round with losses counts as congested only with evidence: CE
// marks, queueing delay, or, where no mark was ever seen, over 30 % loss in two rounds running. A cut that
// proves spurious is undone.
//
// A window that is not used does not grow. But where the window of the connection or the program is the
// limit, all paths use the same part of their windows, and one that joined late, or came back, would stay
// small for good: below the mean of all paths it grows whatever it used.
#include <algorithm>

#include "core/mroce/engine_impl.h"

namespace mroce {

namespace {
constexpr double kAlphaGain = 0.25;
constexpr double kBlindLoss = 0.3;
constexpr uint32_t kBlindRounds = 2;
constexpr double kIncreaseShare = 8;   // additive increase of all paths together, packets a round trip
constexpr uint32_t kCleanRounds = 64;  // until the reorder threshold shrinks by one
}  // namespace

double Engine::Impl::cc_max(const Connection& c) const {
  const uint64_t window =
      MROCE_MUTANT(kWindowOfOwn) ? config.window_bytes : c.window_bytes(config.window_bytes);
  return std::max(1.0, static_cast<double>(window) / c.full_packet());
}

void Engine::Impl::cc_on_acked(Connection& c, Path& p, uint32_t packets) {
  CongestionState& cc = p.cc;
  const bool limited_us = p.inflight + packets >= cc.cwnd / 2;
  if (!limited_us && cc.cwnd >= cc.usual) return;
  const double paths = static_cast<double>(c.paths.size());
  const double increase = cc.slow_start ? packets : std::min(1.0, kIncreaseShare / paths) * packets / cc.cwnd;
  cc.cwnd = std::min(cc.cwnd + increase, limited_us ? cc_max(c) : cc.usual);
}

void Engine::Impl::cc_on_ce(Time now, Path& p, uint32_t ce, uint32_t rx) {
  CongestionState& cc = p.cc;
  cc.ecn_seen = true;
  cc.round_ce += ce;
  if (cc.cut_at != Time{} && now - cc.cut_at < p.rtt.srtt) return;
  cc.alpha = (1 - kAlphaGain) * cc.alpha + kAlphaGain * (static_cast<double>(ce) / rx);
  cc.cwnd = std::max(1.0, cc.cwnd * (1 - cc.alpha / 2));
  cc.slow_start = false;
  cc.cut_at = now;
  cc.cwnd_before = 0;  // marks are not undone
}

// The mean window of the usable paths, packets.
double Engine::Impl::usual_cwnd(const Connection& c) {
  double sum = 0;
  uint32_t usable = 0;
  for (const Path& each : c.paths) {
    if (!each.usable()) continue;
    sum += each.cc.cwnd;
    ++usable;
  }
  return usable == 0 ? 0 : sum / usable;
}

void Engine::Impl::cc_on_lost(Path& p) {
  ++p.cc.round_lost;
}

void Engine::Impl::cc_on_spurious(Path& p) {
  CongestionState& cc = p.cc;
  if (cc.round_lost > 0) --cc.round_lost;
  if (cc.cwnd_before > cc.cwnd) cc.cwnd = cc.cwnd_before;
  cc.cwnd_before = 0;
}

void Engine::Impl::cc_round_end(Time now, Connection& c, Path& p) {
  CongestionState& cc = p.cc;
  judge_loss(now, c, p);
  const bool lossy = cc.round_lost > 0;
  if (lossy) {
    const Nanos queueing = p.rtt.srtt - p.rtt.min;
    const bool delayed = p.rtt.valid && queueing > std::max(p.rtt.min / 2, config.delay_gate);
    const bool heavy = !cc.ecn_seen && cc.round_sent >= 8 && cc.round_lost > kBlindLoss * cc.round_sent;
    cc.blind_rounds = heavy ? cc.blind_rounds + 1 : 0;
    if (cc.round_ce > 0 || delayed || cc.blind_rounds >= kBlindRounds || MROCE_MUTANT(kLossIsCongestion)) {
      cc.cwnd_before = cc.cwnd;
      cc.cwnd = std::max(1.0, cc.cwnd / 2);
      cc.slow_start = false;
      cc.cut_at = now;
      cc.blind_rounds = 0;
    }
    p.clean_rounds = 0;
  } else {
    cc.blind_rounds = 0;
    if (++p.clean_rounds >= kCleanRounds) {
      p.clean_rounds = 0;
      if (p.reorder_threshold > 0 && !MROCE_MUTANT(kThresholdStays)) --p.reorder_threshold;
    }
  }
  cc.round_lost = cc.round_sent = cc.round_ce = 0;
  cc.round_end = p.sent.end();
  cc.usual = usual_cwnd(c);
}

}  // namespace mroce
