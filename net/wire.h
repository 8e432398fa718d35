// Wire: all that happens to a burst between the engine and a socket, in both directions: impairment, trace,
// and waiting for a full socket buffer.
//
// A burst that the kernel has no room for is copied and tried again at the next progress; meanwhile the
// engine is not asked for more (blocked()), so that at most one burst of the engine waits here. What cannot
// be sent within 10 ms is given up and reported like any refused burst: one stuck interface must not hold up
// the others.
//
// The trace has the datagrams of each direction in the order in which the engine sent or got them; those that
// the impairment layer dropped stand in their places, those that it held where it let them go (and the
// dropped ones between them, too). A burst that waits stands where it began to.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "core/base/time.h"
#include "core/mroce/burst.h"
#include "net/impairment.h"
#include "net/pcapng_writer.h"
#include "net/receive_sockets.h"
#include "net/send_sockets.h"

namespace mroce::net {

class WireUser {
 public:
  virtual ~WireUser() = default;
  virtual void arrived(const RxMeta& meta, std::span<const std::byte> bytes, uint32_t segment_bytes) = 0;
};

class Wire final : private ImpairmentSink {
 public:
  struct Trace {
    PcapngWriter writer;
    int64_t unix_offset_ns = 0;         // wall clock minus Time
    std::vector<UdpAddress> listening;  // by port index: where received datagrams went to
  };

  Wire(SendSockets sockets, Impairment impairment, std::optional<Trace> trace, WireUser& user);

  // Sends, delays, copies or drops `burst`. Only while not blocked().
  void send(Time now, const TxBurst& burst);
  // Hands `received` to the user, at once or later or never.
  void receive(Time now, const Received& received);
  // Tries again what was blocked, then passes on what the impairment layer has held long enough. Bounded
  // work.
  void progress(Time now);

  bool blocked() const { return !waiting_.empty(); }
  // Nothing delayed, nothing blocked.
  bool empty() const { return waiting_.empty() && impairment_.next_deadline() == kNever; }
  Time next_deadline() const;
  // Bit i: since the last call, the kernel refused a burst on port i.
  uint64_t take_refused() { return std::exchange(refused_, 0); }

  const Impairment& impairment() const { return impairment_; }
  const SendCounters& send_counters() const { return sockets_.counters(); }
  uint64_t gave_up() const { return gave_up_; }
  const PcapngWriter* trace() const { return trace_ ? &trace_->writer : nullptr; }
  void finish_trace();  // writes what is buffered; later datagrams are left out
  void close();
  void abandon();

 private:
  struct Waiting {
    TxBurst burst;
    std::vector<std::byte> bytes;
    Time since{};
  };
  struct Lost {  // a dropped datagram whose place in the trace is in the middle of a burst
    TxBurst datagram;
    std::vector<std::byte> bytes;
    uint32_t behind = 0;  // so many segments of the next burst
  };

  void pass_out(const TxBurst& burst) override;
  void pass_in(const RxMeta& meta, std::span<const std::byte> bytes, uint32_t segment_bytes) override;
  bool traces() const override { return trace_.has_value(); }
  void dropped_out(const TxBurst& datagram, uint32_t behind) override;
  void dropped_in(const RxMeta& meta, std::span<const std::byte> datagram) override;
  void keep(const TxBurst& burst, uint32_t first_segment);
  void retry_waiting();
  void trace_out(const TxBurst& burst, uint32_t refused_from);
  void trace_lost(uint32_t behind);
  void trace_segment(const TxBurst& burst, std::span<const Slice> slices, std::string_view comment);
  void trace_in(const RxMeta& meta, std::span<const std::byte> bytes, uint32_t segment_bytes,
                std::string_view comment);

  SendSockets sockets_;
  Impairment impairment_;
  std::optional<Trace> trace_;
  WireUser& user_;
  std::deque<Waiting> waiting_;
  std::deque<Lost> lost_;  // empty without a trace
  Time now_{};
  uint64_t refused_ = 0;
  uint64_t gave_up_ = 0;
};

}  // namespace mroce::net
