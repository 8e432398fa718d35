// Congestion windows: Reno (RFC 5681) and DCTCP (RFC 8257).
//
// In slow start the window grows by what was acknowledged, above ssthresh by a segment a window (byte
// counting, RFC 3465 without its limit, as Linux does). It grows only while the window is what limits the
// sender. DCTCP estimates the fraction of marked bytes once a window, alpha += g (F - alpha), and cuts the
// window by alpha/2, at most once a window; until that window is over it does not grow. Offsets are of bytes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/tcp_options.h"

namespace mroce::sim {

class TcpCongestion {
 public:
  TcpCongestion(const TcpOptions& options, uint32_t mss)
      : mss_(mss), dctcp_(options.control == TcpControl::kDctcp), gain_(options.dctcp_gain) {
    window_ = uint64_t{options.initial_window} * mss;
  }

  uint64_t window() const { return window_; }
  uint64_t threshold() const { return threshold_; }
  double alpha() const { return alpha_; }
  bool slow_start() const { return window_ < threshold_; }

  // `flight`: bytes in the network before the acknowledgement came.
  void on_acked(uint64_t bytes, uint64_t flight) {
    if (reduced_) return;
    if (slow_start()) {
      if (window_ >= 2 * flight) return;
      const uint64_t grown = std::min(bytes, threshold_ - window_);
      window_ += grown;
      bytes -= grown;
      if (bytes == 0) return;
    }
    if (flight + mss_ <= window_) return;
    credit_ += bytes;
    if (credit_ < window_) return;
    credit_ -= window_;
    window_ += mss_;
  }

  // Each acknowledgement, before on_acked(). `next`: the first byte that was not sent yet.
  void on_echo(uint64_t acknowledged, uint64_t next, uint64_t bytes, bool marked, bool recovering) {
    if (!dctcp_) return;
    acked_ += bytes;
    if (marked) marked_ += bytes;
    if (acknowledged >= window_end_) {
      const double fraction = acked_ == 0 ? 0 : static_cast<double>(marked_) / static_cast<double>(acked_);
      if (acked_ != 0) alpha_ += gain_ * (fraction - alpha_);
      acked_ = marked_ = 0;
      window_end_ = next;
    }
    if (reduced_ && acknowledged >= reduced_end_) reduced_ = false;
    if (!marked || reduced_ || recovering) return;
    const auto cut = static_cast<uint64_t>(static_cast<double>(window_) * alpha_ / 2);
    threshold_ = window_ = std::max<uint64_t>(window_ - cut, 2 * uint64_t{mss_});
    credit_ = 0;
    reduced_ = true;
    reduced_end_ = next;
  }

  // A loss; `flight` bytes are outstanding.
  void on_loss(uint64_t flight) {
    threshold_ = std::max<uint64_t>(flight / 2, 2 * uint64_t{mss_});
    window_ = threshold_;
    credit_ = 0;
    reduced_ = false;
  }
  void on_timeout(uint64_t flight, bool first) {
    if (first) threshold_ = std::max<uint64_t>(flight / 2, 2 * uint64_t{mss_});
    window_ = mss_;
    credit_ = 0;
    reduced_ = false;
  }
  void limit_window(uint64_t bytes) { window_ = std::min(window_, std::max<uint64_t>(bytes, mss_)); }

 private:
  uint32_t mss_;
  bool dctcp_;
  bool reduced_ = false;
  double gain_;
  double alpha_ = 1;
  uint64_t window_ = 0;
  uint64_t threshold_ = UINT64_MAX;
  uint64_t credit_ = 0;  // acknowledged bytes towards the next segment of growth
  uint64_t window_end_ = 0;
  uint64_t acked_ = 0;
  uint64_t marked_ = 0;
  uint64_t reduced_end_ = 0;
};

}  // namespace mroce::sim
